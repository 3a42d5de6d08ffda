//! The part of probing that changes the process it happens in: a child of the agent makes
//! namespaces and mounts as a launch does, and ends. The kernel then removes all of it.
//!
//! It speaks with [`super::namespaces`] over its standard streams: after each step one line, `STEP ERRNO`
//! with 0 for success; after the first it waits for a line, while its ids are being mapped.

use std::ffi::CString;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use rustix::fs::{CWD, Mode, mkdirat};
use rustix::mount::MountAttrFlags;
use rustix::process::fchdir;
use rustix::thread::UnshareFlags;
use sandboxd_linux::mount::{FileSystem, attach};
use sandboxd_linux::process::become_ids;
use sandboxd_linux::unshare::unshare;

/// What is tried, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    User,
    Network,
    Tmpfs,
    Overlay,
}

impl Step {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Network => "network",
            Self::Tmpfs => "tmpfs",
            Self::Overlay => "overlay",
        }
    }
}

/// Where the child mounts, in its own mount namespace: a folder that every machine has.
const MOUNT_POINT: &std::ffi::CStr = c"/usr";

/// Tries everything that can still be tried after what failed.
pub(crate) fn run() -> ExitCode {
    let user = unshare(UnshareFlags::NEWUSER);
    if !say(Step::User, &user) || user.is_err() || io::stdin().read_exact(&mut [0]).is_err() {
        return ExitCode::SUCCESS;
    }
    say(Step::Network, &unshare(UnshareFlags::NEWNET));
    // The machine's root is nobody in there, and makes no files.
    let root = become_ids(0, 0);
    let tmpfs = root.and_then(|()| unshare(UnshareFlags::NEWNS)).and_then(|()| enter_tmpfs());
    say(Step::Tmpfs, &tmpfs);
    if tmpfs.is_ok() {
        say(Step::Overlay, &mount_overlay());
    }
    ExitCode::SUCCESS
}

/// Says whether anybody listens.
fn say(step: Step, result: &io::Result<()>) -> bool {
    let errno = result.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(-1));
    writeln!(io::stdout(), "{} {errno}", step.name()).is_ok()
}

fn enter_tmpfs() -> io::Result<()> {
    let tmpfs = FileSystem::new(c"tmpfs")?;
    tmpfs.set(c"size", c"65536")?;
    let tree = tmpfs.mount(MountAttrFlags::empty())?;
    attach(&tree, MOUNT_POINT)?;
    Ok(fchdir(&tree)?)
}

fn mount_overlay() -> io::Result<()> {
    let overlay = FileSystem::new(c"overlay")?;
    overlay.set(c"source", c"overlay")?;
    for (key, folder) in [("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work")] {
        mkdirat(CWD, folder, Mode::RWXU)?;
        overlay.set(&CString::new(key)?, &CString::new(folder)?)?;
    }
    overlay.set_flag(c"userxattr")?;
    overlay.mount(MountAttrFlags::empty()).map(drop)
}
