//! Making files as somebody else, for the length of one function and on one thread.
//!
//! A file system that was mounted in a user namespace takes new files only from ids that are mapped
//! there: from those of the sandbox, and not from the machine's root. `setfsuid` changes just the
//! ids that own new files and that permissions are checked for; but on its way from root to another
//! id the kernel takes the capabilities away that the agent needs to get past those permissions, so
//! they are raised again.
//!
//! The C library's own set-id functions act on every thread of the process. These calls act on the
//! calling one, and both go past the library.

use std::io;

use rustix::thread::{CapabilitySets, capabilities, set_capabilities};

/// Runs `body` with `uid` and `gid` as the ids for the file system, and the capabilities that the
/// thread had before. They are put back afterwards, also if `body` panics.
///
/// # Errors
///
/// If this process may not take these ids; `body` did not run then.
pub fn as_owner<T>(uid: u32, gid: u32, body: impl FnOnce() -> T) -> io::Result<T> {
    let before = capabilities(None)?;
    let restore = Restore { before, uid: set_uid(None), gid: set_gid(None) };
    // The group first: it takes a capability, which `body` needs again anyway.
    set_gid(Some(gid));
    set_uid(Some(uid));
    if (set_uid(None), set_gid(None)) != (uid, gid) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    set_capabilities(None, before)?;
    let result = body();
    drop(restore);
    Ok(result)
}

/// What the thread had.
struct Restore {
    before: CapabilitySets,
    uid: u32,
    gid: u32,
}

impl Drop for Restore {
    fn drop(&mut self) {
        set_uid(Some(self.uid));
        set_gid(Some(self.gid));
        // Lowering and re-raising what is permitted cannot fail.
        let _ = set_capabilities(None, self.before);
    }
}

/// Sets the id, or leaves it alone, and returns the one before. There is no other way to ask, and
/// no error.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ids have 32 bits")]
fn set_uid(uid: Option<u32>) -> u32 {
    // SAFETY: takes a number and acts on the calling thread's credentials alone.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid.unwrap_or(u32::MAX)) as u32 }
}

/// See [`set_uid`].
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ids have 32 bits")]
fn set_gid(gid: Option<u32>) -> u32 {
    // SAFETY: takes a number and acts on the calling thread's credentials alone.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid.unwrap_or(u32::MAX)) as u32 }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

    use super::*;

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn files_belong_to_the_owner_in_folders_that_are_closed_to_it() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let path = folder.path().join("file");
        let before = capabilities(None).unwrap();
        as_owner(70_001, 70_002, || std::fs::write(&path, "")).unwrap().unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid()), (70_001, 70_002));

        assert_eq!((set_uid(None), set_gid(None)), (0, 0));
        assert_eq!(capabilities(None).unwrap(), before);
    }

    #[test]
    fn ids_come_back_after_a_panic() {
        if !is_root() {
            return;
        }
        let result = std::panic::catch_unwind(|| as_owner(1, 1, || panic!("on purpose")));
        assert!(result.is_err());
        assert_eq!((set_uid(None), set_gid(None)), (0, 0));
    }

    #[test]
    fn other_threads_keep_their_ids() {
        if !is_root() {
            return;
        }
        as_owner(1, 1, || std::thread::spawn(|| ()).join()).unwrap().unwrap();
        let seen = std::thread::scope(|scope| {
            let (begin, wait) = std::sync::mpsc::channel();
            let other = scope.spawn(move || {
                wait.recv().unwrap();
                (set_uid(None), set_gid(None))
            });
            as_owner(1, 1, || begin.send(()).map(|()| other.join())).unwrap().unwrap().unwrap()
        });
        assert_eq!(seen, (0, 0));
    }
}
