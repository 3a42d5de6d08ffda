//! Writing a whole file: to a temporary name first, which then replaces the target in one step.
//!
//! So whoever reads the target sees the old file or the new one, and a write that fails leaves the
//! old one. A symlink at the end of the path is followed, as every program that writes would: the
//! file it leads to is replaced, and the link stays. Hard links are not: the other names keep the
//! old file.

use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, openat, readlinkat, statat, unlinkat,
};
use rustix::io::{Errno, write};
use sandboxd_proto::v1;
use sha2::{Digest as _, Sha256};

use super::make_dir::make_folders;
use super::path::SandboxPath;
use super::tree::{Owner, Tree, check_real, failure, not_regular};
use crate::call::Answer;

/// Symlinks that may follow each other at the end of a path; the kernel's own limit.
const MAX_LINKS: u32 = 40;

/// Names that are tried for the temporary file. They are random: a second try is rare already.
const MAX_NAMES: u32 = 16;

/// Permission bits of a new file.
const DEFAULT_MODE: u32 = 0o644;

/// What is to be written.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) path: SandboxPath,
    /// `None`: those of the file replaced, else [`DEFAULT_MODE`].
    pub(super) mode: Option<u32>,
    pub(super) owner: Owner,
    /// Make missing folders.
    pub(super) parents: bool,
}

/// A file that is being written. Dropping it removes what was written.
#[derive(Debug)]
pub(super) struct Upload {
    tree: Tree,
    path: SandboxPath,
    folder: OwnedFd,
    name: Vec<u8>,
    temporary: Option<Vec<u8>>,
    file: OwnedFd,
    mode: u32,
    size: u64,
    hash: Sha256,
}

impl Upload {
    /// Makes the temporary file beside the target.
    pub(super) fn begin(tree: &Tree, target: &Target) -> Answer<Self> {
        if target.parents
            && let Some((folder, _)) = target.path.split()
        {
            let folder = SandboxPath::new(folder, b"/")?;
            make_folders(tree, &folder, target.owner)?;
        }
        let Place { path, folder, name, replaced } = find(tree, &target.path)?;
        // Set-id bits are for whoever asks for them: a write takes them off, as it always does.
        let inherited = replaced.map(|replaced| replaced.st_mode & 0o777);
        let mode = target.mode.or(inherited).unwrap_or(DEFAULT_MODE) & 0o7777;
        let (temporary, file) =
            create(tree, target.owner, &folder).map_err(|errno| failure(&path, errno))?;
        let temporary = Some(temporary);
        let (tree, size, hash) = (tree.clone(), 0, Sha256::new());
        Ok(Self { tree, path, folder, name, temporary, file, mode, size, hash })
    }

    /// Appends to the temporary file.
    pub(super) fn append(&mut self, chunks: &[Bytes]) -> Answer<()> {
        for chunk in chunks {
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                match write(&self.file, rest) {
                    Ok(count) => rest = &rest[count..],
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(failure(&self.path, errno)),
                }
            }
            self.hash.update(chunk);
            self.size += chunk.len() as u64;
        }
        Ok(())
    }

    /// Puts the file in its place.
    pub(super) fn finish(mut self) -> Answer<v1::FilesWriteResponse> {
        fchmod(&self.file, Mode::from_raw_mode(self.mode))
            .map_err(|errno| failure(&self.path, errno))?;
        if let Some(temporary) = &self.temporary {
            self.tree
                .rename((&self.folder, temporary), (&self.folder, &self.name))
                .map_err(|errno| failure(&self.path, errno))?;
        }
        self.temporary = None;
        let sha256 = Bytes::copy_from_slice(&self.hash.finalize_reset());
        Ok(v1::FilesWriteResponse { size: self.size, sha256 })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _ = unlinkat(&self.folder, &*temporary, AtFlags::empty());
        }
    }
}

/// Where a path ends.
struct Place {
    path: SandboxPath,
    folder: OwnedFd,
    name: Vec<u8>,
    /// The regular file that is there.
    replaced: Option<Stat>,
}

/// Follows symlinks at the end of `path` to the place where a file is to be.
fn find(tree: &Tree, path: &SandboxPath) -> Answer<Place> {
    let mut path = path.clone();
    for _ in 0..MAX_LINKS {
        let failed = |errno| failure(&path, errno);
        let Some((folder, name)) = path.split() else { return Err(failed(Errno::ISDIR)) };
        let folder = tree.folder(folder).map_err(failed)?;
        check_real(&path, &folder)?;
        let replaced = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(failed(errno)),
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Some(found),
                FileType::Directory => return Err(failed(Errno::ISDIR)),
                FileType::Symlink => {
                    let target = readlinkat(&folder, name, Vec::new()).map_err(failed)?;
                    path = path.follow(target.as_bytes())?;
                    continue;
                }
                _ => return Err(not_regular(&path)),
            },
        };
        let name = name.to_vec();
        return Ok(Place { path, folder, name, replaced });
    }
    Err(failure(&path, Errno::LOOP))
}

/// Makes a file under a name that nothing has.
fn create(tree: &Tree, owner: Owner, folder: &OwnedFd) -> Result<(Vec<u8>, OwnedFd), Errno> {
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::EXCL
        | OFlags::NOFOLLOW
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let attempt = || {
        // Seeded anew each time, by the standard library for its tables.
        let random = RandomState::new().hash_one(0);
        let name = format!(".sandboxd-{random:016x}").into_bytes();
        // Nobody but the owner reads it before it is whole.
        let mode = Mode::RUSR | Mode::WUSR;
        let file = tree.as_owner(owner, || openat(folder, &*name, flags, mode))?;
        Ok((name, file))
    };
    for _ in 1..MAX_NAMES {
        match attempt() {
            Err(Errno::EXIST | Errno::INTR) => {}
            result => return result,
        }
    }
    attempt()
}
