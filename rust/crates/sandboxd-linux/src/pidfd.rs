//! Processes by descriptor: a pid that cannot come to mean another process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

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

/// Sends a signal.
///
/// # Errors
///
/// If the process has been reaped, the signal does not exist, or it is not allowed.
pub fn send_signal(process: impl AsFd, signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_send_signal(process, signal)?)
}
