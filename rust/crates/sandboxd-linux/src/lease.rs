//! Holding a file back from everyone else, for a moment.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use crate::syscall::check;

/// Holds back everyone who opens or truncates the file of `file`, which this process has open to
/// write: they wait until [`release`], or until `file` is closed, or for
/// `/proc/sys/fs/lease-break-time` (45 s) at most; with `O_NONBLOCK` they are refused.
///
/// # Errors
///
/// `WouldBlock` if somebody has the file open besides, and whatever the file system says that has
/// no leases.
pub fn hold(file: impl AsFd) -> io::Result<()> {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open during the call; the argument is a number.
    check(unsafe { libc::fcntl(file, libc::F_SETLEASE, libc::F_WRLCK) }.into())?;
    // Nobody: the kernel would send this process a signal, which ends it, when somebody waits.
    // SAFETY: as above.
    check(unsafe { libc::fcntl(file, libc::F_SETOWN, 0) }.into())?;
    Ok(())
}

/// Lets everyone in again.
///
/// # Errors
///
/// If there is no lease any more.
pub fn release(file: impl AsFd) -> io::Result<()> {
    // SAFETY: the descriptor is open during the call; the argument is a number.
    let answer = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    check(answer.into())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    #[test]
    fn nobody_else_has_a_held_file_open_and_a_released_one_everybody_may() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let file = File::create(&path).unwrap();
        let open = || OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let other = open().unwrap();
        assert_eq!(hold(&file).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(other);
        hold(&file).unwrap();
        assert_eq!(open().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // No signal came; this process is still here.
        release(&file).unwrap();
        open().unwrap();
    }
}
