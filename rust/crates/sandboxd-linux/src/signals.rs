//! Signals as a single-threaded event loop wants them: blocked, and read from a descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::null_mut;

use crate::syscall::check;

/// Real-time signals included.
const LAST_SIGNAL: i32 = 64;

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer is valid for writing a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set was made empty above.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: `sigemptyset` has initialised it.
    unsafe { set.assume_init() }
}

/// Gives every signal its default action and unblocks all but those of `blocked`. Programs inherit
/// ignored signals, so init may not ignore any: it survives without, being the first process of its
/// namespace.
pub fn reset(blocked: &[i32]) {
    // The kernel's structure, all zeroes: the default action, without flags. Not by way of the C
    // library, which leaves out two signals that it wants for itself, and that a careless parent
    // may have ignored.
    let default = [0_u64; 4];
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: the structure has the size that the kernel reads; the default action runs no code
        // of ours. SIGKILL and SIGSTOP are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
    }
    block(blocked);
}

/// Blocks exactly these signals.
pub fn block(signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: `set` is a valid set and the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, null_mut()) };
}

/// A close-on-exec, non-blocking descriptor that is readable while one of these blocked signals is
/// pending.
///
/// # Errors
///
/// When descriptors run out.
pub fn descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: `set` is a valid set; -1 asks for a new descriptor.
    let answer =
        unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(answer.into())?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(answer) })
}

/// Takes one pending signal from such a descriptor. Several of one kind count as one, so after
/// SIGCHLD the caller collects until nothing is left.
#[must_use]
pub fn take(descriptor: &OwnedFd) -> Option<i32> {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut pending = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    // SAFETY: the buffer has the size that is passed.
    let length = unsafe { libc::read(descriptor.as_raw_fd(), pending.as_mut_ptr().cast(), SIZE) };
    // SAFETY: zeroes are valid, and so is what the kernel writes.
    let pending = unsafe { pending.assume_init() };
    let whole = usize::try_from(length) == Ok(SIZE);
    whole.then(|| i32::try_from(pending.ssi_signo).unwrap_or(0))
}
