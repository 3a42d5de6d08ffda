//! Results of raw system calls.

use std::io;

/// Turns the answer of a libc call that sets `errno` into a result.
pub(crate) fn check(answer: i64) -> io::Result<i64> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
