//! A file that nobody sees until it is whole.
//!
//! It has no name at first, so nobody inside can open it, and what was hashed on its way in is what
//! is in it. It gets its name in one step. Where it is to replace another file, the kernel has no
//! single step for that: it gets a temporary name, which then replaces the target, and between the
//! two a lease keeps everyone from opening it. So at the moment at which it appears under the
//! target's name it is what was written. After that it is a file like any other: whoever may write
//! to it, or to its folder, may change it at once.
//!
//! Kernels before 6.1 have no files without a name on an overlay. There the file has a temporary
//! name from the start, and its writer must look again at what is in it before it is placed
//! ([`NewFile::hold`]).

use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, linkat, openat, statat, unlinkat};
use rustix::io::Errno;
use sandboxd_linux::lease;

use super::tree::{Owner, Tree};
use crate::lock::lock;

/// Names that are tried for a temporary file. They are random: a second try is rare already.
const MAX_NAMES: u32 = 16;

/// Dropping it removes it, unless it was placed.
#[derive(Debug)]
pub(super) struct NewFile {
    file: OwnedFd,
    folder: Arc<OwnedFd>,
    owner: Owner,
    /// The name that it has had from the start, where there is no other way.
    name: Option<Vec<u8>>,
}

impl NewFile {
    /// Makes an empty file for `folder`, that belongs to `owner`.
    pub(super) fn create(tree: &Tree, owner: Owner, folder: Arc<OwnedFd>) -> Result<Self, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let made = tree.as_owner(owner, || openat(&folder, ".", flags, Mode::RUSR | Mode::WUSR));
        match made {
            Ok(file) => Ok(Self { file, folder, owner, name: None }),
            // What kernels and file systems say that know no such files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                Self::create_named(tree, owner, folder)
            }
            Err(errno) => Err(errno),
        }
    }

    /// As [`Self::create`], with a temporary name.
    pub(super) fn create_named(
        tree: &Tree,
        owner: Owner,
        folder: Arc<OwnedFd>,
    ) -> Result<Self, Errno> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let (name, file) = with_new_name(|name| {
            // Nobody but the owner reads it before it is whole.
            tree.as_owner(owner, || openat(&folder, name, flags, Mode::RUSR | Mode::WUSR))
        })?;
        Ok(Self { file, folder, owner, name: Some(name) })
    }

    /// Whether somebody inside may have had it open: then [`Self::hold`] and look at its content.
    pub(super) const fn was_reachable(&self) -> bool {
        self.name.is_some()
    }

    /// Keeps everyone from opening it until it is placed.
    ///
    /// # Errors
    ///
    /// `BUSY`, if somebody has it open.
    pub(super) fn hold(&self) -> Result<(), Errno> {
        lease::hold(&self.file).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) | None => Errno::BUSY,
            Some(errno) => errno,
        })
    }

    /// Gives it the name `name` in its folder, in place of what has that name.
    ///
    /// # Errors
    ///
    /// `STALE`, if a program took the temporary name away. The target is then whatever that made it.
    pub(super) fn place(mut self, tree: &Tree, name: &[u8], turn: &Mutex<()>) -> Result<(), Errno> {
        if self.name.is_none() {
            match self.link(tree, name) {
                Err(Errno::EXIST) => {}
                result => return result,
            }
            self.hold()?;
        }
        // One after the other: what replaced this file would look like a program's doing.
        let turn = lock(turn);
        let temporary = match self.name.take() {
            Some(name) => name,
            None => with_new_name(|name| self.link(tree, name))?.0,
        };
        if let Err(errno) = tree.rename((&self.folder, &temporary), (&self.folder, name)) {
            self.name = Some(temporary);
            return Err(errno);
        }
        let (found, ours) =
            (statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW), fstat(&self.file)?);
        drop(turn);
        // Closing the file, which is next, lets everyone in.
        match found {
            Ok(found) if (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino) => Ok(()),
            _ => Err(Errno::STALE),
        }
    }

    fn link(&self, tree: &Tree, name: &[u8]) -> Result<(), Errno> {
        // The way without this path takes a capability that an ordinary user's agent has not.
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = AtFlags::SYMLINK_FOLLOW;
        tree.as_owner(self.owner, || linkat(CWD, path.as_str(), &self.folder, name, flags))
    }
}

impl AsFd for NewFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            let _ = unlinkat(&self.folder, &*name, AtFlags::empty());
        }
    }
}

/// Does something with a name that nothing has.
fn with_new_name<T>(
    mut attempt: impl FnMut(&[u8]) -> Result<T, Errno>,
) -> Result<(Vec<u8>, T), Errno> {
    for _ in 0..MAX_NAMES {
        // Seeded anew each time, by the standard library for its tables.
        let random = RandomState::new().hash_one(0);
        let name = format!(".sandboxd-{random:016x}").into_bytes();
        match attempt(&name) {
            Ok(done) => return Ok((name, done)),
            Err(Errno::EXIST | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}
