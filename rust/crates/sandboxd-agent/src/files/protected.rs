//! Files of a sandbox that only its graders see.
//!
//! They are on a tmpfs of the agent's own, which is attached nowhere: no path leads to it, in no mount
//! namespace, and it is gone with its last descriptor. A grader's root has it as its topmost layer
//! ([`crate::graders`]), so what is in it takes the place of whatever the sandbox has under the same
//! name, links included.
//!
//! Beside the caller's files there are the places where a grader's root has something mounted, and the
//! links at the top of the template: nothing that was put in their place inside can then redirect what
//! is mounted, or which programs are run.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, XattrFlags, fchmod, fsetxattr, fstat, mkdirat, symlinkat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use sandboxd_linux::mount::FileSystem;
use sandboxd_linux::protocol::{IdRange, LayeredMount};
use sandboxd_proto::{CallError, ErrorCode};

use super::path::SandboxPath;
use super::tree::{Owner, Tree, failure};
use crate::call::Answer;

/// Bytes that the protected files of one sandbox may have. They are memory of the agent's.
const MAX_BYTES: u64 = 256 << 20;

/// How many there may be, directories included. Empty ones take memory too.
const MAX_FILES: u64 = 65_536;

/// Directories of the template's root that a grader has as the template has them, whatever was changed
/// inside: from these, programs and the loader take what runs before them and with them.
pub(crate) const SYSTEM: [&str; 2] = ["etc", "sys"];

/// Where a root has something mounted that is no layer.
const MOUNTED: [&str; 2] = ["dev", "proc"];

/// Files are made by the machine's root, and shown with the ids of the grader.
const IDS: IdRange = IdRange { first: 0, count: 65_536 };

/// What overlays take for a directory that hides the same one of the layers beneath.
const OPAQUE: &str = "user.overlay.opaque";

/// The protected files of one sandbox.
#[derive(Debug)]
pub(crate) struct Protected {
    root: Arc<OwnedFd>,
}

impl Protected {
    /// Makes the tmpfs, for a sandbox whose template has this root.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(crate) fn new(template: &[LayeredMount]) -> io::Result<Self> {
        let tmpfs = FileSystem::new(c"tmpfs")?;
        let text = |number: u64| std::ffi::CString::new(number.to_string()).unwrap_or_default();
        tmpfs.set(c"size", &text(MAX_BYTES))?;
        tmpfs.set(c"nr_inodes", &text(MAX_FILES))?;
        tmpfs.set(c"mode", c"0755")?;
        let root = tmpfs.mount(MountAttrFlags::empty())?;
        let tops = template.iter().filter_map(|mount| mount.target.strip_prefix("/").ok());
        let tops = tops.filter(|top| !top.as_os_str().is_empty());
        for name in tops.chain(SYSTEM.iter().chain(&MOUNTED).map(Path::new)) {
            make(&root, name.as_os_str().as_bytes())?;
        }
        let base = template.iter().find(|mount| mount.target == Path::new("/"));
        for layer in base.iter().flat_map(|base| &base.layers) {
            copy_links(layer, &root)?;
        }
        Ok(Self { root: Arc::new(root) })
    }

    /// Where its files are: a mount that was never attached.
    pub(crate) fn mount(&self) -> &OwnedFd {
        &self.root
    }

    pub(super) fn tree(&self) -> Tree {
        Tree::new(Arc::clone(&self.root), IDS)
    }

    /// Makes the directories above `path`, as the sandbox has them or else anew.
    ///
    /// # Errors
    ///
    /// `invalid_argument` if there can be no protected file at this path.
    pub(super) fn make_parents(&self, live: &Tree, path: &SandboxPath) -> Answer<()> {
        check(path)?;
        let Some((folder, _)) = path.split() else { return Ok(()) };
        let tree = self.tree();
        let ends = folder.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        for (end, _) in ends {
            let part = SandboxPath::new(&path.bytes()[..end], b"/")?;
            // Two slashes.
            let Some((folder, name)) = part.split() else { continue };
            let failed = |errno| failure(&part, errno);
            match tree.folder(part.bytes()) {
                Ok(_) => continue,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
            let (owner, mode) = as_in(live, &part);
            let folder = tree.folder(folder).map_err(failed)?;
            let made = tree.as_owner(owner, || mkdirat(&folder, name, Mode::RWXU));
            match made {
                // Another write was faster.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
            let made = tree.open(part.bytes(), OFlags::RDONLY | OFlags::DIRECTORY);
            made.and_then(|made| fchmod(made, mode)).map_err(failed)?;
        }
        Ok(())
    }

    /// Hides from graders what the sandbox has in the protected directory `path`.
    ///
    /// # Errors
    ///
    /// `file_failed`.
    pub(super) fn close(&self, path: &SandboxPath) -> Answer<()> {
        let folder = self.tree().open(path.bytes(), OFlags::RDONLY | OFlags::DIRECTORY);
        let closed = folder.and_then(|folder| fsetxattr(folder, OPAQUE, b"y", XattrFlags::empty()));
        closed.map_err(|errno| failure(path, errno))
    }
}

/// Says of a full disk which one it is.
pub(super) fn explain(error: CallError) -> CallError {
    if error.code != ErrorCode::DiskFull {
        return error;
    }
    let message = format!(
        "the protected files of a sandbox may have {} MiB together, and be {MAX_FILES}: no room",
        MAX_BYTES >> 20
    );
    CallError { message, ..error }
}

/// Refuses a path at which a grader would not find the file, or find more than one.
///
/// # Errors
///
/// `invalid_argument`.
pub(super) fn check(path: &SandboxPath) -> Answer<()> {
    let mut names = path.bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let top = names.clone().next().unwrap_or_default();
    let what = if names.any(|name| name == b"." || name == b"..") {
        "has `.` or `..` in it: give a plain path"
    } else if MOUNTED.iter().any(|mounted| mounted.as_bytes() == top) {
        "is in /dev or /proc, where there are no files to write"
    } else {
        return Ok(());
    };
    let message = format!("path {path} of a protected file {what}");
    Err(CallError::new(ErrorCode::InvalidArgument, message))
}

/// Refuses to close a directory that a grader has from the template.
///
/// # Errors
///
/// `invalid_argument`.
pub(super) fn check_closable(path: &SandboxPath) -> Answer<()> {
    check(path)?;
    let mut names = path.bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let (top, second) = (names.next(), names.next());
    let is_system = |top: &[u8]| top == b"usr" || SYSTEM.iter().any(|name| name.as_bytes() == top);
    if second.is_none() && top.is_none_or(is_system) {
        let message = format!("{path} cannot be a protected directory: make one beneath it");
        return Err(CallError::new(ErrorCode::InvalidArgument, message));
    }
    Ok(())
}

/// Owner and mode of a directory of the sandbox; what a new one has if it has none there.
fn as_in(live: &Tree, path: &SandboxPath) -> (Owner, Mode) {
    let new = (Owner::ROOT, Mode::from_raw_mode(0o755));
    let Ok(found) = live.folder(path.bytes()).and_then(fstat) else { return new };
    let owner = live.owner(&found);
    (owner, Mode::from_raw_mode(found.st_mode & 0o7777))
}

fn make(root: &OwnedFd, name: &[u8]) -> io::Result<()> {
    match mkdirat(root, name, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    }
    // The umask is the agent's.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(root, name, flags, Mode::empty())?;
    Ok(fchmod(made, Mode::from_raw_mode(0o755))?)
}

/// Copies the links at the top of a layer of the template, such as `bin` to `usr/bin`.
fn copy_links(layer: &Path, root: &OwnedFd) -> io::Result<()> {
    for entry in fs::read_dir(layer)? {
        let entry = entry?;
        if !entry.file_type()?.is_symlink() {
            continue;
        }
        match symlinkat(fs::read_link(entry.path())?, root, entry.file_name()) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> SandboxPath {
        SandboxPath::new(text.as_bytes(), b"/").unwrap()
    }

    #[test]
    fn z13_a_protected_path_is_plain_and_not_in_dev_or_proc() {
        for good in ["/tests/a", "/usr/tests/a", "/a//b", "/devel/a", "/etc/a"] {
            check(&path(good)).unwrap();
        }
        for bad in ["/a/../b", "/./a", "/dev/shm/a", "//proc/self", "/a/.."] {
            assert_eq!(check(&path(bad)).unwrap_err().code, ErrorCode::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn z13_what_the_template_gives_cannot_be_closed() {
        for good in ["/tests", "/tests/", "/usr/tests", "/tmp"] {
            check_closable(&path(good)).unwrap();
        }
        for bad in ["/", "/usr", "/etc/", "/sys", "//usr//"] {
            assert!(check_closable(&path(bad)).is_err(), "{bad}");
        }
    }
}
