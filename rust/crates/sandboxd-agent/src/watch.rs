//! Descriptors that the runtime watches.
//!
//! For one direction each: tokio's own sockets are registered for both, and then each read by the
//! peer wakes the agent, although it has nothing to write.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a non-blocking descriptor for bytes to read. Needs a runtime around it.
///
/// # Errors
///
/// If it cannot be watched, as a regular file, or if descriptors run out.
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    watch(descriptor, Interest::READABLE)
}

/// Watches a non-blocking descriptor for room to write. One that is watched already has to be
/// duplicated first.
///
/// # Errors
///
/// As [`readable`].
pub(crate) fn writable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    watch(descriptor, Interest::WRITABLE)
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for types that may close their descriptor while it is \
              registered; an `OwnedFd` cannot"
)]
fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}
