//! Giving things another path.

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;
use sandboxd_proto::{CallError, ErrorCode};

use super::path::SandboxPath;
use super::tree::{Owner, Tree, check_real, check_removable, failure};
use crate::call::Answer;

/// Moves what is at `source`, a symlink itself included, to `target`; with `replace` in the place
/// of a file or of an empty folder.
pub(super) fn move_(
    tree: &Tree,
    source: &SandboxPath,
    target: &SandboxPath,
    replace: bool,
) -> Answer<()> {
    let (source, target) = (source.trimmed(), target.trimmed());
    // The root, `.` and `..` have no name to be moved by.
    let Some((old_folder, old_name)) = source.split() else {
        return Err(failure(&source, Errno::BUSY));
    };
    let Some((new_folder, new_name)) = target.split() else {
        return Err(failure(&target, Errno::EXIST));
    };
    let at_source = |errno| failure(&source, errno);
    let old_folder = tree.folder(old_folder).map_err(at_source)?;
    check_real(&source, &old_folder)?;
    check_removable(&old_folder, old_name).map_err(at_source)?;
    let at_target = |errno| failure(&target, errno);
    let new_folder = tree.folder(new_folder).map_err(at_target)?;
    check_real(&target, &new_folder)?;
    match check_removable(&new_folder, new_name) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(at_target(errno)),
    }
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    let moved = tree.as_owner(Owner::ROOT, || {
        renameat_with(&old_folder, old_name, &new_folder, new_name, flags)
    });
    moved.map_err(|errno| match errno {
        Errno::NOENT => failure(&source, errno),
        // Not only between mounts: an overlay cannot rename folders of its layers either.
        Errno::XDEV => {
            let message = format!(
                "{source} cannot be moved to {target} in one step, because it is of the template \
                 or on another file system: use `mv`"
            );
            CallError::new(ErrorCode::FileFailed, message).with_reason("cross_device")
        }
        Errno::INVAL => {
            let message = format!("{source} cannot be moved into itself, to {target}");
            CallError::new(ErrorCode::InvalidArgument, message)
        }
        errno => failure(&target, errno),
    })
}
