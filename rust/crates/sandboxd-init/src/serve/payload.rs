//! Arguments, environment and working directory of an exec, as `execve` wants them: where they
//! arrived, without a copy.

use std::ffi::{CStr, c_char};
use std::ptr::null;

use sandboxd_linux::protocol::Malformed;

/// Pointers that are kept room for between execs: more than any usual exec has, so that the list is
/// not allocated again, and little enough that one unusual exec does not weigh on an idle sandbox.
const KEPT: usize = 4_096;

/// Null-terminated lists of pointers into a payload.
#[derive(Debug, Default)]
pub(super) struct Pointers {
    list: Vec<*const c_char>,
}

/// A payload that has been taken apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    /// Ended by a null pointer, as is `environment`.
    pub(super) arguments: &'a [*const c_char],
    pub(super) environment: &'a [*const c_char],
    /// The first argument.
    pub(super) program: &'a CStr,
    /// Value of `PATH`, if the environment has one.
    pub(super) path: Option<&'a [u8]>,
    /// Empty: stay in `/`.
    pub(super) directory: &'a CStr,
}

impl Pointers {
    /// Takes a payload apart. The parts point into the payload and into this list.
    ///
    /// # Errors
    ///
    /// If there are not exactly as many strings as announced, or no argument.
    pub(super) fn split<'a>(
        &'a mut self,
        payload: &'a [u8],
        arguments: u32,
        variables: u32,
    ) -> Result<Parts<'a>, Malformed> {
        self.list.clear();
        self.list.shrink_to(KEPT);
        let mut rest = payload;
        let mut next = || {
            let text = CStr::from_bytes_until_nul(rest).map_err(|_| Malformed)?;
            rest = &rest[text.to_bytes_with_nul().len()..];
            Ok(text)
        };
        let mut program = None;
        for _ in 0..arguments {
            let argument = next()?;
            program = program.or(Some(argument));
            self.list.push(argument.as_ptr());
        }
        self.list.push(null());
        let environment = self.list.len();
        let mut path = None;
        for _ in 0..variables {
            let variable = next()?;
            path = path.or(variable.to_bytes().strip_prefix(b"PATH="));
            self.list.push(variable.as_ptr());
        }
        self.list.push(null());
        let directory = next()?;
        if !rest.is_empty() {
            return Err(Malformed);
        }
        let (arguments, environment) = self.list.split_at(environment);
        Ok(Parts { arguments, environment, program: program.ok_or(Malformed)?, path, directory })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_taken_apart_in_place() {
        let mut pointers = Pointers::default();
        let parts = pointers.split(b"ls\0-l\0A=1\0PATH=/a:/b\0/tmp\0", 2, 2).unwrap();
        assert_eq!(parts.program, c"ls");
        assert_eq!(parts.directory, c"/tmp");
        assert_eq!(parts.path, Some(&b"/a:/b"[..]));
        assert_eq!(parts.arguments.len(), 3);
        // SAFETY: points into the payload above, which is NUL-terminated.
        assert_eq!(unsafe { CStr::from_ptr(parts.arguments[1]) }, c"-l");
        assert!(parts.arguments[2].is_null());
        assert_eq!(parts.environment.len(), 3);
        assert!(parts.environment[2].is_null());
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        let mut pointers = Pointers::default();
        for (payload, arguments, variables) in [
            (&b"ls\0/\0"[..], 0, 1), // no argument
            (b"ls\0/\0", 2, 0),      // no directory
            (b"ls\0/\0\0", 1, 0),    // something left
            (b"ls\0/", 1, 0),        // not terminated
            (b"", 1, 0),
            (b"ls\0/\0", u32::MAX, u32::MAX),
        ] {
            assert!(pointers.split(payload, arguments, variables).is_err(), "{payload:?}");
        }
    }
}
