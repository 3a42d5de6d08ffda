//! Who dies first when memory runs out: programs, then init, then the agent.
//!
//! Init takes its sandbox with it, and what was the fault of a program would look like a loss of the
//! infrastructure. A child inherits the score of its parent, so init raises its own for the moment
//! of a start: two short writes, against opening a file of `/proc` in every child.

use std::os::fd::OwnedFd;

use rustix::io::pwrite;

/// The kernel's upper bound.
const MOST: i32 = 1_000;

/// How far programs are above the agent, where there is room. Each point stands for a thousandth of
/// the memory, so half of it counts for more than any difference in size is likely to.
const ABOVE_AGENT: i32 = 500;

/// Values for `/proc/<pid>/oom_score_adj`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scores {
    pub(crate) init: i32,
    program: i32,
}

impl Scores {
    /// Those of sandboxes of an agent with this score. It may be high already, as in a pod without
    /// reserved memory, and nobody may go below it.
    pub(crate) fn above(agent: i32) -> Self {
        let program = (agent + ABOVE_AGENT).min(MOST);
        Self { init: agent + (program - agent) / 2, program }
    }
}

/// Init's `/proc/self/oom_score_adj`, opened while it still could be.
#[derive(Debug)]
pub(super) struct Score {
    file: Option<OwnedFd>,
    init: String,
    program: String,
}

impl Score {
    pub(super) fn new(file: OwnedFd, scores: Scores) -> Self {
        let Scores { init, program } = scores;
        Self { file: Some(file), init: init.to_string(), program: program.to_string() }
    }

    /// For a fork, for which the file is somebody else's.
    pub(super) fn forget(&mut self) {
        self.file = None;
    }

    /// Runs `start` with the score of programs. Best effort: without it the kernel goes by size.
    pub(super) fn with_programs<T>(&self, start: impl FnOnce() -> T) -> T {
        self.set(&self.program);
        let started = start();
        self.set(&self.init);
        started
    }

    fn set(&self, score: &str) {
        if let Some(file) = &self.file {
            let _ = pwrite(file, score.as_bytes(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_go_before_init_and_init_before_the_agent_where_there_is_room() {
        assert_eq!(Scores::above(0), Scores { init: 250, program: 500 });
        assert_eq!(Scores::above(-998), Scores { init: -748, program: -498 });
        assert_eq!(Scores::above(900), Scores { init: 950, program: 1_000 });
        assert_eq!(Scores::above(1_000), Scores { init: 1_000, program: 1_000 });
    }
}
