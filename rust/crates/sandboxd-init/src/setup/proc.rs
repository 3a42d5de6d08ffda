//! `/proc`, without the parts of it that are about the machine.

use std::ffi::CStr;
use std::fs;

use rustix::fs::{CWD, Mode, mkdirat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use sandboxd_linux::mount::{FileSystem, attach, copy_tree, make_read_only};
use sandboxd_linux::protocol::{Failure, Step};

use crate::failure::At as _;

/// Files that tell about, or act on, the machine: an empty file is put over them.
const HIDDEN_FILES: [&CStr; 7] = [
    c"root/proc/kcore",
    c"root/proc/keys",
    c"root/proc/latency_stats",
    c"root/proc/sched_debug",
    c"root/proc/sysrq-trigger",
    c"root/proc/timer_list",
    c"root/proc/timer_stats",
];

/// Folders likewise: an empty one is put over them.
const HIDDEN_FOLDERS: [&CStr; 3] = [c"root/proc/acpi", c"root/proc/asound", c"root/proc/scsi"];

/// Folders that programs read and nobody may write.
const READ_ONLY: [&CStr; 4] =
    [c"root/proc/bus", c"root/proc/fs", c"root/proc/irq", c"root/proc/sys"];

/// How many user namespaces the sandbox's own may have beneath it.
const USER_NAMESPACES: &str = "root/proc/sys/user/max_user_namespaces";

/// Mounts a fresh `/proc` for this pid namespace.
pub(super) fn mount() -> Result<(), Failure> {
    let proc = FileSystem::new(c"proc").at_path(Step::Mount, c"/proc")?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let tree = proc.mount(flags).at_path(Step::Mount, c"/proc")?;
    attach(&tree, c"root/proc").at_path(Step::Mount, c"/proc")?;
    // A user namespace of one's own gives all capabilities in it, and with them a much larger part of
    // the kernel. This holds for every way to make one, whatever the system call.
    fs::write(USER_NAMESPACES, "0").at_path(Step::Namespaces, c"max_user_namespaces")?;
    mask()
}

fn mask() -> Result<(), Failure> {
    mkdirat(CWD, c"empty", Mode::from_raw_mode(0o555)).at_path(Step::Mount, c"empty")?;
    let masks = HIDDEN_FILES
        .iter()
        .map(|path| (*path, c"/dev/null", true))
        .chain(HIDDEN_FOLDERS.iter().map(|path| (*path, c"empty", true)))
        .chain(READ_ONLY.iter().map(|path| (*path, *path, true)));
    for (path, cover, read_only) in masks {
        // Asked first: a mount that finds no place costs a grace period of the kernel to take apart.
        if !exists(path) {
            continue;
        }
        let tree = copy_tree(cover).at_path(Step::Mount, path)?;
        if read_only {
            make_read_only(&tree).at_path(Step::Mount, path)?;
        }
        attach(&tree, path).at_path(Step::Mount, path)?;
    }
    Ok(())
}

fn exists(path: &CStr) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXISTS) != Err(Errno::NOENT)
}
