//! Writing a whole file, which then takes the target's place in one step ([`super::new_file`]).
//!
//! So whoever reads the target sees the old file or the new one, and a write that fails leaves the
//! old one. A symlink at the end of the path is followed, as every program that writes would: the
//! file it leads to is replaced, and the link stays. Hard links are not: the other names keep the
//! old file.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rustix::fs::{AtFlags, FileType, Mode, Stat, fchmod, readlinkat, statat};
use rustix::io::{Errno, pread, write};
use sandboxd_proto::{CallError, ErrorCode, v1};
use sha2::{Digest as _, Sha256};

use super::make_dir::make_folders;
use super::new_file::NewFile;
use super::path::SandboxPath;
use super::tree::{Owner, Tree, check_real, failure, not_regular};
use crate::call::Answer;

/// Symlinks that may follow each other at the end of a path; the kernel's own limit.
const MAX_LINKS: u32 = 40;

/// Permission bits of a new file.
const DEFAULT_MODE: u32 = 0o644;

/// Bytes that are read at once where a file must be hashed again.
const HASH_CHUNK: usize = 256 * 1024;

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

/// A file that is being written. Dropping it leaves nothing of it.
#[derive(Debug)]
pub(super) struct Upload {
    tree: Tree,
    path: SandboxPath,
    name: Vec<u8>,
    file: NewFile,
    mode: u32,
    size: u64,
    hash: Sha256,
    /// Of the sandbox: whose turn it is to replace a file.
    turn: Arc<Mutex<()>>,
}

impl Upload {
    /// Makes the new file.
    pub(super) fn begin(tree: &Tree, target: &Target, turn: &Arc<Mutex<()>>) -> Answer<Self> {
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
        let file = NewFile::create(tree, target.owner, Arc::new(folder))
            .map_err(|errno| failure(&path, errno))?;
        let (tree, turn) = (tree.clone(), Arc::clone(turn));
        Ok(Self { tree, path, name, file, mode, size: 0, hash: Sha256::new(), turn })
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Appends to the file.
    pub(super) fn append(&mut self, chunks: &[Bytes]) -> Answer<()> {
        for chunk in chunks {
            write_all(&self.file, chunk).map_err(|errno| failure(&self.path, errno))?;
            self.hash.update(chunk);
            self.size += chunk.len() as u64;
        }
        Ok(())
    }

    /// Puts the file in its place.
    pub(super) fn finish(self) -> Answer<v1::FilesWriteResponse> {
        let Self { tree, path, name, file, mode, size, hash, turn } = self;
        let failed = |errno| failure(&path, errno);
        let sha256 = Bytes::copy_from_slice(&hash.finalize());
        if file.was_reachable() {
            file.hold().map_err(failed)?;
            if content_hash(&file).map_err(failed)? != sha256 {
                return Err(interfered(&path));
            }
        }
        fchmod(&file, Mode::from_raw_mode(mode)).map_err(failed)?;
        file.place(&tree, &name, &turn).map_err(|errno| match errno {
            Errno::STALE => interfered(&path),
            errno => failure(&path, errno),
        })?;
        Ok(v1::FilesWriteResponse { size, sha256 })
    }
}

/// Writes all of `data` at the file's position.
pub(super) fn write_all(file: &NewFile, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        match write(file, data) {
            Ok(count) => data = &data[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn content_hash(file: &NewFile) -> Result<Bytes, Errno> {
    let (mut hash, mut buffer, mut offset) = (Sha256::new(), vec![0; HASH_CHUNK], 0);
    loop {
        match pread(file.as_fd(), &mut buffer[..], offset) {
            Ok(0) => return Ok(Bytes::copy_from_slice(&hash.finalize())),
            Ok(count) => {
                hash.update(&buffer[..count]);
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The error of a write during which a program took or changed the file.
fn interfered(path: &SandboxPath) -> CallError {
    let message = format!("{path} was replaced or changed by a program while it was written");
    CallError::new(ErrorCode::FileFailed, message).with_reason("interfered").maybe_run(true)
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
