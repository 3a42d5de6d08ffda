//! The pipes of one exec.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

/// A pipe whose reading end, ours, does not block.
///
/// # Errors
///
/// When descriptors run out.
pub(crate) fn for_output() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    // Of our end only: programs do not expect theirs not to block.
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// A pipe whose writing end, ours, does not block. Theirs comes first.
///
/// # Errors
///
/// When descriptors run out.
pub(crate) fn for_input() -> io::Result<(OwnedFd, OwnedFd)> {
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((theirs, ours))
}
