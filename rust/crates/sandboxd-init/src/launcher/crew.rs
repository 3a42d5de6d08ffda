//! Children of the launcher that do a little in other namespaces or groups, and end.

use std::io;

use sandboxd_linux::clone::{self, Options, Stack};
use sandboxd_linux::process::collect_child;

/// Room for the frames of a child, and of init, which goes on on the same stack.
const STACK_BYTES: usize = 256 * 1024;

/// The children that have not been collected. Each has done its part when the launcher goes on, but
/// the kernel takes a while to end it, for which the next order does not wait.
#[derive(Debug)]
pub(super) struct Crew {
    stack: Stack,
    ending: Vec<u32>,
}

impl Crew {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { stack: Stack::new(STACK_BYTES)?, ending: Vec::new() })
    }

    /// Runs `body` in a child that shares our memory. Returns its pid, which is its own until
    /// [`Self::collect`].
    ///
    /// # Safety
    ///
    /// As [`clone::vfork`].
    pub(super) unsafe fn run<F: FnMut() -> i32>(
        &mut self,
        options: Options<'_>,
        body: &mut F,
    ) -> io::Result<u32> {
        // SAFETY: as promised by the caller.
        let pid = unsafe { clone::vfork(options, &mut self.stack, body) }?;
        self.ending.push(pid);
        Ok(pid)
    }

    /// Collects those that have done their part.
    pub(super) fn collect(&mut self) {
        for pid in self.ending.drain(..) {
            // Nobody else collects it, and how it ended says nothing.
            let _ = collect_child(pid);
        }
    }
}
