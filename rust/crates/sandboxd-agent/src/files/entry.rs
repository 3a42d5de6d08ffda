//! What is known of files: `Stat` and `List`.

use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::path::SandboxPath;
use super::tree::{Tree, failure, retry};
use crate::call::Answer;

/// Entries of one listing, which is one message.
const MAX_ENTRIES: usize = 100_000;

/// Bytes of the names and targets in it.
const MAX_NAME_BYTES: usize = 16 * 1024 * 1024;

/// What is at `path`; with `follow`, what a symlink there leads to.
pub(super) fn stat(tree: &Tree, path: &SandboxPath, follow: bool) -> Answer<v1::FileEntry> {
    let failed = |errno| failure(path, errno);
    let flags = if follow { OFlags::PATH } else { OFlags::PATH | OFlags::NOFOLLOW };
    let file = tree.open(path.bytes(), flags).map_err(failed)?;
    let found = fstat(&file).map_err(failed)?;
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    // An empty path means the descriptor itself.
    let target =
        if is_link { readlinkat(&file, "", Vec::new()).map_err(failed)? } else { c"".into() };
    Ok(entry(tree, Vec::new(), &found, target.into_bytes()))
}

/// The entries of the folder `path`, sorted by name; if `recursive`, those of folders in it too, as
/// paths below it.
pub(super) fn list(tree: &Tree, path: &SandboxPath, recursive: bool) -> Answer<Vec<v1::FileEntry>> {
    let failed = |errno| failure(path, errno);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
    let top = tree.open(path.bytes(), flags).map_err(failed)?;
    let mut listing = Listing { tree, path, entries: Vec::new(), name_bytes: 0 };
    let mut folders = listing.read(&top, b"")?;
    while recursive && let Some(below) = folders.pop() {
        match beneath(&top, &below) {
            Ok(folder) => folders.extend(listing.read(&folder, &below)?),
            // Removed meanwhile, or something is mounted there.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    let mut entries = listing.entries;
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Opens a folder below `top`, on the same file system.
fn beneath(top: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    retry(|| openat2(top, path, flags, Mode::empty(), resolve))
}

struct Listing<'a> {
    tree: &'a Tree,
    path: &'a SandboxPath,
    entries: Vec<v1::FileEntry>,
    name_bytes: usize,
}

impl Listing<'_> {
    /// Adds the entries of one folder, and returns the folders among them.
    fn read(&mut self, folder: &OwnedFd, below: &[u8]) -> Answer<Vec<Vec<u8>>> {
        let failed = |errno| failure(self.path, errno);
        let mut folders = Vec::new();
        for name in Dir::read_from(folder).map_err(failed)? {
            let name = match name {
                Ok(name) => name,
                // The folder itself was removed.
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(failed(errno)),
            };
            let name = name.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let found = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                // Removed meanwhile.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let kind = FileType::from_raw_mode(found.st_mode);
            let is_link = kind == FileType::Symlink;
            let target = match is_link.then(|| readlinkat(folder, name, Vec::new())) {
                Some(Ok(target)) => target.into_bytes(),
                // Not a link any more, or none at all.
                Some(Err(_)) | None => Vec::new(),
            };
            let name = if below.is_empty() { name.to_vec() } else { [below, b"/", name].concat() };
            self.name_bytes += name.len() + target.len();
            if self.entries.len() == MAX_ENTRIES || self.name_bytes > MAX_NAME_BYTES {
                let message = format!(
                    "{} has more than {MAX_ENTRIES} entries, or more than {MAX_NAME_BYTES} bytes \
                     of names: list it with a command",
                    self.path
                );
                return Err(CallError::new(ErrorCode::ResourceExhausted, message));
            }
            if kind == FileType::Directory {
                folders.push(name.clone());
            }
            self.entries.push(entry(self.tree, name, &found, target));
        }
        Ok(folders)
    }
}

fn entry(tree: &Tree, name: Vec<u8>, found: &Stat, target: Vec<u8>) -> v1::FileEntry {
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => v1::FileKind::File,
        FileType::Directory => v1::FileKind::Directory,
        FileType::Symlink => v1::FileKind::Symlink,
        _ => v1::FileKind::Other,
    };
    let owner = tree.owner(found);
    let nanoseconds = i64::try_from(found.st_mtime_nsec).unwrap_or(0);
    v1::FileEntry {
        name: name.into(),
        kind: kind.into(),
        size: found.st_size.try_into().unwrap_or(0),
        mode: found.st_mode & 0o7777,
        uid: owner.uid,
        gid: owner.gid,
        // Programs may set any time, beyond what 64 bits of nanoseconds hold.
        modified_unix_ns: found.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanoseconds),
        target: target.into(),
    }
}
