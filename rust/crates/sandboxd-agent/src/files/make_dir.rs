//! Making folders.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, fchmod, mkdirat};
use rustix::io::Errno;

use super::path::SandboxPath;
use super::tree::{Owner, Tree, child_folder, failure};
use crate::call::Answer;

/// Permission bits of a folder.
const DEFAULT_MODE: u32 = 0o755;

/// Makes the folder `path` for the sandbox's root.
///
/// With `parents` missing ones above it are made as well, and a folder that exists is as good.
pub(super) fn make_dir(
    tree: &Tree,
    path: &SandboxPath,
    parents: bool,
    mode: Option<u32>,
) -> Answer<()> {
    let path = path.trimmed();
    let failed = |errno| failure(&path, errno);
    let Some((folder, name)) = path.split() else {
        // `/`, `.` and `..` exist, or do not and cannot be made.
        return match tree.folder(path.bytes()) {
            Ok(_) if parents => Ok(()),
            Ok(_) => Err(failed(Errno::EXIST)),
            Err(errno) => Err(failed(errno)),
        };
    };
    if parents {
        make_folders(tree, &SandboxPath::new(folder, b"/")?, Owner::ROOT)?;
    }
    let folder = tree.folder(folder).map_err(failed)?;
    match make(tree, &folder, name, mode.unwrap_or(DEFAULT_MODE) & 0o7777, Owner::ROOT) {
        Err(Errno::EXIST) if parents => match tree.folder(path.bytes()) {
            Ok(_) => Ok(()),
            Err(Errno::NOTDIR) => Err(failed(Errno::EXIST)),
            Err(errno) => Err(failed(errno)),
        },
        result => result.map_err(failed),
    }
}

/// Makes `path` and whatever is missing above it.
pub(super) fn make_folders(tree: &Tree, path: &SandboxPath, owner: Owner) -> Answer<()> {
    let bytes = path.bytes();
    let failed = |errno| failure(path, errno);
    match tree.folder(bytes) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed(errno)),
    }
    // From the top, because every part may be a link, which only the kernel follows.
    let ends = bytes.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
    for end in ends.map(|(end, _)| end).chain([bytes.len()]) {
        let part = SandboxPath::new(&bytes[..end], b"/")?;
        match tree.folder(part.bytes()) {
            Ok(_) => continue,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        // A part that ends in a slash, `.` or `..` is missing only if the one before it was, which
        // was made.
        let Some((folder, name)) = part.split() else { continue };
        let folder = tree.folder(folder).map_err(failed)?;
        match make(tree, &folder, name, DEFAULT_MODE, owner) {
            // Somebody else was faster. A link that leads nowhere is found out by the next part.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    tree.folder(bytes).map(drop).map_err(failed)
}

fn make(tree: &Tree, folder: &OwnedFd, name: &[u8], mode: u32, owner: Owner) -> Result<(), Errno> {
    tree.as_owner(owner, || mkdirat(folder, name, Mode::from_raw_mode(mode)))?;
    // The umask is for what the agent keeps itself, and the kernel drops the set-id bits.
    if mode & 0o7022 != 0 {
        fchmod(child_folder(folder, name)?, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}
