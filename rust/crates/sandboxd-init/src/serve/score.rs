//! Who dies first when a sandbox's memory is full: programs, not init.
//!
//! Init takes its sandbox with it, and what was the fault of a program would look like a loss of the
//! infrastructure. A child inherits the score of its parent, so init raises its own for the moment
//! of a start: two short writes, against opening a file of `/proc` in every child.

use std::os::fd::OwnedFd;

use rustix::io::pwrite;

/// Init's own score, which is the launcher's.
pub(crate) const INIT: &[u8] = b"500";

/// The score of programs.
const PROGRAM: &[u8] = b"800";

/// Init's `/proc/self/oom_score_adj`, opened while it still could be.
#[derive(Debug)]
pub(super) struct Score(Option<OwnedFd>);

impl Score {
    pub(super) const fn new(file: OwnedFd) -> Self {
        Self(Some(file))
    }

    /// For a fork, for which the file is somebody else's.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    /// Runs `start` with the score of programs. Best effort: without it the kernel goes by size.
    pub(super) fn with_programs<T>(&self, start: impl FnOnce() -> T) -> T {
        self.set(PROGRAM);
        let started = start();
        self.set(INIT);
        started
    }

    fn set(&self, score: &[u8]) {
        if let Some(file) = &self.0 {
            let _ = pwrite(file, score, 0);
        }
    }
}
