//! The files of one sandbox, seen from outside.
//!
//! Invariants: every path is resolved by `openat2` beneath the sandbox's root, with the sandbox's
//! own symlinks and never out of it; what was resolved is used by descriptor, not by path again.
//! Whoever runs in the sandbox may change the tree at any moment: that can make a call fail or
//! apply to another of its own files, and no more. All functions block, if only on the disk.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{
    FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, fstat, fstatfs, openat2, renameat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use sandboxd_linux::fsids::as_owner;
use sandboxd_linux::protocol::IdRange;
use sandboxd_proto::{CallError, ErrorCode};

use super::path::SandboxPath;
use crate::call::Answer;

/// Times that a resolution is begun again when the tree changed under it. A program that renames
/// without end can make calls on its own files fail, but not keep a thread.
const MAX_ATTEMPTS: u32 = 64;

/// How long a file that is held back is waited for, and how long between two tries.
const LEASE_PATIENCE: Duration = Duration::from_millis(500);
const LEASE_PAUSE: Duration = Duration::from_millis(1);

/// What ids are shown that are none of the sandbox's.
const OVERFLOW_ID: u32 = 65_534;

/// A sandbox's root, and whose files are in it.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: Arc<OwnedFd>,
    users: IdRange,
    groups: IdRange,
}

/// Ids as seen in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Owner {
    pub(super) const ROOT: Self = Self { uid: 0, gid: 0 };
}

impl Tree {
    /// The tree beneath `root`, whose files belong to `ids`.
    pub(super) fn new(root: Arc<OwnedFd>, ids: IdRange) -> Self {
        // An ordinary user maps its own user and its own group, which may have other numbers.
        let group = if geteuid().is_root() { ids.first } else { getegid().as_raw() };
        Self { root, users: ids, groups: IdRange { first: group, count: ids.count } }
    }

    /// Opens `path` with `flags`, following symlinks unless these say otherwise.
    pub(super) fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        retry(|| openat2(&*self.root, path, flags, Mode::empty(), resolve))
    }

    /// Opens a folder to work in.
    pub(super) fn folder(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Opens a regular file to read, with what is known of it. Waits for nobody: not for the other
    /// end of a pipe, not for a device, not for a lease.
    ///
    /// # Errors
    ///
    /// Also if it is anything else than a regular file of the sandbox. What `/proc` shows is none:
    /// the agent would read with its own rights what the sandbox's programs may not read.
    pub(super) fn regular(&self, path: &SandboxPath) -> Answer<(OwnedFd, Stat)> {
        // Unlike `open`, `openat2` refuses files above 2 GiB unless told.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::LARGEFILE;
        let failed = |errno| match errno {
            // A socket, or a device without a driver.
            Errno::NXIO | Errno::NODEV => not_regular(path),
            errno => failure(path, errno),
        };
        let file = self.open_unleased(path.bytes(), flags).map_err(failed)?;
        let found = fstat(&file).map_err(failed)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(failure(path, Errno::ISDIR)),
            _ => return Err(not_regular(path)),
        }
        check_real(path, &file)?;
        Ok((file, found))
    }

    /// Opens a file that a write may be holding back just now, for some microseconds. A program may
    /// hold one back for long: it is not waited for longer than [`LEASE_PATIENCE`].
    fn open_unleased(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let until = Instant::now() + LEASE_PATIENCE;
        loop {
            match self.open(path, flags) {
                Err(Errno::AGAIN) if Instant::now() < until => std::thread::sleep(LEASE_PAUSE),
                result => return result,
            }
        }
    }

    /// Runs `body` so that the files it makes belong to `owner`.
    pub(super) fn as_owner<T>(
        &self,
        owner: Owner,
        body: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        // An ordinary user's files are the sandbox's already.
        if !geteuid().is_root() {
            return body();
        }
        let (uid, gid) = (self.users.first + owner.uid, self.groups.first + owner.gid);
        as_owner(uid, gid, body)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PERM))?
    }

    /// Gives a file another name, on the same file system.
    ///
    /// The kernel takes a rename for the making of a name, so only the sandbox's ids may.
    pub(super) fn rename(
        &self,
        (old_folder, old_name): (&OwnedFd, &[u8]),
        (new_folder, new_name): (&OwnedFd, &[u8]),
    ) -> Result<(), Errno> {
        self.as_owner(Owner::ROOT, || renameat(old_folder, old_name, new_folder, new_name))
    }

    /// Whether files can belong to these ids. An ordinary user's are always its own.
    pub(super) fn has_ids(&self, owner: Owner) -> bool {
        let is_user = !geteuid().is_root();
        is_user || (owner.uid < self.users.count && owner.gid < self.groups.count)
    }

    /// The owner of a file, as seen in the sandbox.
    pub(super) fn owner(&self, found: &Stat) -> Owner {
        let seen = |ids: IdRange, id: u32| {
            id.checked_sub(ids.first).filter(|id| *id < ids.count).unwrap_or(OVERFLOW_ID)
        };
        Owner { uid: seen(self.users, found.st_uid), gid: seen(self.groups, found.st_gid) }
    }
}

/// Opens what is called `name` in `folder`, if it is a folder itself and on the same file system.
pub(super) fn child_folder(folder: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    retry(|| openat2(&folder, name, flags, Mode::empty(), resolve))
}

/// Refuses what `/proc` shows: there are no files behind it that could be read or written whole.
pub(super) fn check_real(path: &SandboxPath, file: &OwnedFd) -> Answer<()> {
    match fstatfs(file) {
        Ok(found) if found.f_type == PROC_SUPER_MAGIC => Err(not_regular(path)),
        Ok(_) => Ok(()),
        Err(errno) => Err(failure(path, errno)),
    }
}

/// Whether `name` in `folder` may be taken away. The kernel would keep a mount point only from
/// programs that have the mount themselves: from outside, removing it takes the mount with it.
pub(super) fn check_removable(folder: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
    match retry(|| openat2(&folder, name, flags, Mode::empty(), resolve)) {
        Ok(_) => Ok(()),
        Err(Errno::XDEV) => Err(Errno::BUSY),
        Err(errno) => Err(errno),
    }
}

/// Tries again when the tree changed meanwhile, a bounded number of times.
pub(super) fn retry<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 1..MAX_ATTEMPTS {
        match attempt() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    attempt()
}

/// The error of a call on `path` that the kernel refused.
pub(super) fn failure(path: &SandboxPath, errno: Errno) -> CallError {
    let (code, what) = match errno {
        Errno::NOENT => (ErrorCode::FileNotFound, "does not exist in the sandbox"),
        Errno::EXIST => (ErrorCode::FileExists, "exists already"),
        Errno::NOTDIR => (ErrorCode::NotADirectory, "is not a directory, or leads through none"),
        Errno::ISDIR => (ErrorCode::IsADirectory, "is a directory"),
        Errno::NOTEMPTY => (ErrorCode::DirectoryNotEmpty, "is not empty: remove it recursively"),
        Errno::ACCESS | Errno::PERM => {
            (ErrorCode::PermissionDenied, "is closed to this call: permission is denied")
        }
        Errno::NOSPC | Errno::DQUOT => {
            (ErrorCode::DiskFull, "finds no room: the sandbox's disk limit is reached")
        }
        Errno::NAMETOOLONG => (ErrorCode::InvalidArgument, "has a name longer than 255 bytes"),
        Errno::LOOP => (ErrorCode::FileFailed, "leads through too many symlinks"),
        Errno::AGAIN => (ErrorCode::FileFailed, "is changed or locked by programs all the time"),
        Errno::XDEV => (ErrorCode::FileFailed, "is on another file system"),
        Errno::BUSY => (ErrorCode::FileFailed, "is in use, as mount points are"),
        errno => {
            let message = format!("{path}: {errno}");
            return CallError::new(ErrorCode::FileFailed, message);
        }
    };
    CallError::new(code, format!("{path} {what}"))
}

/// The error of a call that wants a regular file.
pub(super) fn not_regular(path: &SandboxPath) -> CallError {
    let message = format!("{path} is not a regular file: use a command to read or write it");
    CallError::new(ErrorCode::NotARegularFile, message)
}
