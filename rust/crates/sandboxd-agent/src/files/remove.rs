//! Removing files and whole trees.
//!
//! A tree may be as deep and as wide as its maker likes, and may change meanwhile. So memory and
//! descriptors are bounded: at [`MAX_DEPTH`] a folder is moved up to the top of the tree, where it
//! is emptied later like any other. Symlinks and mount points are never entered.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, unlinkat};
use rustix::io::Errno;

use super::path::SandboxPath;
use super::tree::{Tree, check_removable, child_folder, failure};
use crate::call::Answer;

/// Folders that are open at once, each with a buffer of the kernel's entries.
const MAX_DEPTH: usize = 64;

/// Passes over one folder until it is empty. The second finds what a pass has skipped or moved up;
/// more are only needed while somebody fills it.
const MAX_PASSES: usize = 1_000;

/// Removes what is at `path`: a file, a symlink itself, an empty folder; any folder if `recursive`.
pub(super) fn remove(tree: &Tree, path: &SandboxPath, recursive: bool) -> Answer<()> {
    let only_folder = path.bytes().ends_with(b"/");
    let path = path.trimmed();
    let failed = |errno| failure(&path, errno);
    // The root, `.` and `..` have no name to be removed by.
    let Some((folder, name)) = path.split() else { return Err(failed(Errno::BUSY)) };
    let folder = tree.folder(folder).map_err(failed)?;
    check_removable(&folder, name).map_err(failed)?;
    if !only_folder {
        match unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => return Ok(()),
            // The two answers for a folder.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    match unlinkat(&folder, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) if recursive => {}
        Err(Errno::EXIST) => return Err(failed(Errno::NOTEMPTY)),
        result => return result.map_err(failed),
    }
    let top = child_folder(&folder, name).map_err(failed)?;
    Emptying { tree, top: &top, moved: 0 }.run().map_err(failed)?;
    unlinkat(&folder, name, AtFlags::REMOVEDIR).map_err(failed)
}

/// A folder that everything is being removed from.
struct Emptying<'a> {
    tree: &'a Tree,
    top: &'a OwnedFd,
    /// Folders that were moved up to `top` so far.
    moved: u64,
}

impl Emptying<'_> {
    fn run(mut self) -> Result<(), Errno> {
        for _ in 0..MAX_PASSES {
            if self.pass(self.top, 1)? {
                return Ok(());
            }
        }
        Err(Errno::NOTEMPTY)
    }

    /// Removes what is in `folder`. Says whether it found nothing at all.
    fn pass(&mut self, folder: &OwnedFd, depth: usize) -> Result<bool, Errno> {
        let mut was_empty = true;
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            was_empty = false;
            match unlinkat(folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // The two answers for a folder.
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
            let child = match child_folder(folder, name) {
                Ok(child) => child,
                // No longer there, or no longer a folder: the next pass sees.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => return Err(errno),
            };
            if depth < MAX_DEPTH {
                self.pass(&child, depth + 1)?;
            }
            match unlinkat(folder, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) if depth < MAX_DEPTH => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => self.move_up(folder, name)?,
                Err(errno) => return Err(errno),
            }
        }
        Ok(was_empty)
    }

    /// Leaves a folder for the next pass over the top, if not for this one.
    fn move_up(&mut self, folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        let flat = format!(".sandboxd-{}", self.moved);
        self.moved += 1;
        match self.tree.rename((folder, name), (self.top, flat.as_bytes())) {
            // Gone, or the name is taken: the next pass has another one.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
