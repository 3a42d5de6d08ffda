//! Turns errors of the kernel into failures that name their step.

use std::ffi::CStr;
use std::io;

use sandboxd_linux::protocol::{Failure, Step};

/// The failure of a step, with the thing that it failed on.
pub(crate) fn failure(step: Step, error: &io::Error, detail: impl Into<String>) -> Failure {
    Failure { step, errno: error.raw_os_error().unwrap_or(libc::EIO), detail: detail.into() }
}

/// Adds the step to an error.
pub(crate) trait At<T> {
    /// The failure of `step`.
    fn at(self, step: Step) -> Result<T, Failure>;

    /// The failure of `step` on `path`.
    fn at_path(self, step: Step, path: &CStr) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|error| failure(step, &error.into(), ""))
    }

    fn at_path(self, step: Step, path: &CStr) -> Result<T, Failure> {
        self.map_err(|error| failure(step, &error.into(), path.to_string_lossy()))
    }
}
