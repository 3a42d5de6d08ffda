//! `/dev`: a handful of harmless devices, terminals of the sandbox's own, shared memory.

use std::ffi::CStr;

use rustix::fs::{CWD, Mode, OFlags, chmod, mkdirat, openat, symlinkat};
use rustix::mount::MountAttrFlags;
use sandboxd_linux::mount::{FileSystem, attach, copy_tree, make_read_only};
use sandboxd_linux::protocol::{Failure, Step};

use super::plan::Plan;
use crate::failure::At as _;

/// Devices of the host that lead nowhere: path there, path here.
const NODES: [(&CStr, &CStr); 6] = [
    (c"/dev/null", c"root/dev/null"),
    (c"/dev/zero", c"root/dev/zero"),
    (c"/dev/full", c"root/dev/full"),
    (c"/dev/random", c"root/dev/random"),
    (c"/dev/urandom", c"root/dev/urandom"),
    (c"/dev/tty", c"root/dev/tty"),
];

const LINKS: [(&CStr, &CStr); 5] = [
    (c"/proc/self/fd", c"root/dev/fd"),
    (c"/proc/self/fd/0", c"root/dev/stdin"),
    (c"/proc/self/fd/1", c"root/dev/stdout"),
    (c"/proc/self/fd/2", c"root/dev/stderr"),
    (c"pts/ptmx", c"root/dev/ptmx"),
];

/// Group `tty` of most systems, which owns terminals.
const TTY_GROUP: u32 = 5;

/// Terminals of one sandbox. The machine has 4,096 for all, a quarter of them kept for itself: a sandbox
/// that takes what it can get leaves some to others.
const TERMINALS: &CStr = c"256";

/// Mounts a folder of the writable layer at `/dev` and fills it. The devices are the host's nodes,
/// bound: nobody in a user namespace can make any.
pub(super) fn mount(plan: &Plan<'_>) -> Result<(), Failure> {
    let directory = Mode::from_raw_mode(0o755);
    mkdirat(CWD, c"dev", directory).at_path(Step::Mount, c"/dev")?;
    let folder = copy_tree(c"dev").at_path(Step::Mount, c"/dev")?;
    attach(&folder, c"root/dev").at_path(Step::Mount, c"/dev")?;
    for path in [c"root/dev/pts", c"root/dev/shm"] {
        mkdirat(CWD, path, directory).at_path(Step::Mount, path)?;
    }
    chmod(c"root/dev/shm", Mode::from_raw_mode(0o1777)).at_path(Step::Mount, c"/dev/shm")?;
    for (target, path) in LINKS {
        symlinkat(target, CWD, path).at_path(Step::Mount, path)?;
    }
    for (source, path) in NODES {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty()).at_path(Step::Mount, path)?;
        let node = copy_tree(source).at_path(Step::Mount, source)?;
        // Devices can be written to on a read-only mount; what it forbids is to change the node, which
        // is the machine's: its times, for one.
        make_read_only(&node).at_path(Step::Mount, source)?;
        attach(&node, path).at_path(Step::Mount, source)?;
    }
    mount_terminals(plan)
}

fn mount_terminals(plan: &Plan<'_>) -> Result<(), Failure> {
    let terminals = FileSystem::new(c"devpts").at_path(Step::Mount, c"devpts")?;
    let set = |key, value| terminals.set(key, value).at_path(Step::Mount, c"devpts");
    set(c"ptmxmode", c"0666")?;
    set(c"mode", c"0620")?;
    set(c"max", TERMINALS)?;
    if plan.ids.count > TTY_GROUP {
        set(c"gid", c"5")?;
    }
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let tree = terminals.mount(flags).at_path(Step::Mount, c"devpts")?;
    attach(&tree, c"root/dev/pts").at_path(Step::Mount, c"/dev/pts")
}
