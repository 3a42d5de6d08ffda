//! Descriptors that a parent process left open, named by number on the command line.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

/// A duplicate of the descriptor `number`. The original stays open until this process ends, but is
/// not passed on to its children.
///
/// A duplicate, because nothing can prove that no other part of the process owns that number: so
/// whoever names a wrong one gets an error or a wrong descriptor, and never closes somebody else's.
///
/// # Errors
///
/// `EBADF` when nothing is open at `number`, or when descriptors run out.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: `number` is not -1, and is used below in system calls only, which answer EBADF for
    // one that is not open.
    let original = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_setfd(original, FdFlags::CLOEXEC)?;
    // Above the standard streams, whatever of them is closed.
    Ok(fcntl_dupfd_cloexec(original, 3)?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn an_open_descriptor_is_duplicated() {
        let (mut read, write) = std::io::pipe().unwrap();
        let mut duplicate = std::fs::File::from(inherited(write.as_raw_fd()).unwrap());
        drop(write);
        duplicate.write_all(b"x").unwrap();
        drop(duplicate);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    fn one_that_is_not_open_is_an_error() {
        let error = inherited(1_000_000).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
        assert!(inherited(-1).is_err());
    }
}
