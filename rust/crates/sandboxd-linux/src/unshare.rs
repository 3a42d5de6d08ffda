//! Leaving namespaces for new ones.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Everything that is a namespace.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWUSER
    .union(UnshareFlags::NEWNS)
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWPID)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS)
    .union(UnshareFlags::NEWCGROUP);

/// Moves the calling thread into new namespaces.
///
/// # Errors
///
/// `InvalidInput` for anything that is not a namespace; else as `unshare`, which refuses a new user
/// namespace to processes with several threads.
pub fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    if !NAMESPACES.contains(namespaces) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the table of descriptors, which is what could go wrong, stays shared.
    unsafe { unshare_unsafe(namespaces) }.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_are_taken() {
        let error = unshare(UnshareFlags::FILES | UnshareFlags::NEWNS).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
