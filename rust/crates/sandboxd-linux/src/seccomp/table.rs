//! What is denied. It starts from what container engines deny without extra capabilities.

/// What happens to one system call. Arguments are looked at in their lower 32 bits: those named here
/// are of that size in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Deny,
    DenyIfEqual {
        argument: u32,
        values: &'static [u32],
    },
    /// Of two arguments, each with the value that denies.
    DenyIfEitherEqual {
        first: (u32, u32),
        second: (u32, u32),
    },
    DenyIfAnyBit {
        argument: u32,
        bits: u32,
    },
    DenyUnlessEqual {
        argument: u32,
        values: &'static [u32],
    },
}

/// Highest system call that was looked at when this table was written: `file_setattr`. Newer ones do
/// not exist in here, which programs know how to deal with.
pub(super) const LAST_REVIEWED: u32 = 469;

#[cfg(target_arch = "x86_64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_00b7;

/// Not in `libc` yet.
const SYS_OPEN_TREE_ATTR: i64 = 467;

const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32
    | 0x80; // CLONE_NEWTIME, whose bit is the exit signal's in clone

/// Host-wide sockets: virtual machine sockets reach the hypervisor past every network namespace, and
/// the kernel's crypto API is a rich source of holes.
const SOCKET_FAMILIES: &[u32] = &[38, 40];

/// Typing on somebody's terminal: TIOCSTI, and TIOCLINUX, which pastes. And TIOCSETD: line disciplines
/// are drivers with a history of holes, which the kernel loads for whoever asks.
const TERMINAL: &[u32] = &[0x5412, 0x541c, 0x5423];

/// Linux, 32-bit Linux, either with an old version number, without address randomisation (which
/// debuggers turn off), and the question what it is.
const PERSONALITIES: &[u32] = &[0, 8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff];

/// Init's pid. Root inside has the same ids as init, for which the kernel asks no capability to change
/// another process's limits and scheduling: without descriptors init could serve nobody, and below
/// everybody else it could report no end in time.
const INIT: &[u32] = &[1];

/// `PRIO_USER`: every process of a user, so that init would be among root's.
const OF_A_USER: u32 = 2;

/// `F_SETLEASE`. The kernel lets whoever executes a leased file wait for up to 45 s, and init executes
/// programs inside a vfork.
const LEASE: &[u32] = &[1024];

const ARGUMENTS: [(i64, Rule); 11] = [
    (libc::SYS_prlimit64, Rule::DenyIfEqual { argument: 0, values: INIT }),
    (libc::SYS_sched_setscheduler, Rule::DenyIfEqual { argument: 0, values: INIT }),
    (libc::SYS_sched_setparam, Rule::DenyIfEqual { argument: 0, values: INIT }),
    (libc::SYS_sched_setattr, Rule::DenyIfEqual { argument: 0, values: INIT }),
    (libc::SYS_sched_setaffinity, Rule::DenyIfEqual { argument: 0, values: INIT }),
    (
        libc::SYS_setpriority,
        Rule::DenyIfEitherEqual { first: (0, OF_A_USER), second: (1, INIT[0]) },
    ),
    (libc::SYS_fcntl, Rule::DenyIfEqual { argument: 1, values: LEASE }),
    (libc::SYS_socket, Rule::DenyIfEqual { argument: 0, values: SOCKET_FAMILIES }),
    (libc::SYS_ioctl, Rule::DenyIfEqual { argument: 1, values: TERMINAL }),
    (libc::SYS_unshare, Rule::DenyIfAnyBit { argument: 0, bits: NAMESPACES }),
    (libc::SYS_personality, Rule::DenyUnlessEqual { argument: 0, values: PERSONALITIES }),
];

const DENIED: &[i64] = &[
    // Kernel code and state.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Large interfaces with a history of holes.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    // Key rings are not namespaced well enough.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    // Placement of memory, and looking into other processes beyond tracing.
    libc::SYS_mbind,
    libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_kcmp,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_uselib, libc::SYS_ustat, libc::SYS_sysfs];
#[cfg(target_arch = "aarch64")]
const DENIED_HERE: &[i64] = &[];

/// Every rule, by number.
pub(super) fn rules() -> Vec<(u32, Rule)> {
    let denied = DENIED.iter().chain(DENIED_HERE).map(|number| (*number, Rule::Deny));
    let mut rules: Vec<(u32, Rule)> = denied
        .chain(ARGUMENTS)
        .map(|(number, rule)| (u32::try_from(number).unwrap_or(u32::MAX), rule))
        .collect();
    rules.sort_by_key(|(number, _)| *number);
    rules
}
