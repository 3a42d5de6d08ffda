//! Processes by descriptor: a pid that cannot come to mean another process.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::ptr::null;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::syscall::check;

/// Opens a process, close-on-exec.
///
/// # Errors
///
/// If there is none, or the pid is 0.
pub fn open(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Sends a signal, real-time ones included.
///
/// # Errors
///
/// If the process has been reaped, the signal does not exist, or it is not allowed.
pub fn send_signal(process: impl AsFd, signal: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open during the call, and no further information is passed.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_fd().as_raw_fd(),
            signal,
            null::<libc::siginfo_t>(),
            0,
        )
    };
    check(answer)?;
    Ok(())
}
