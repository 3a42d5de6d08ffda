//! Child reaping: the only code in init that collects the statuses of execs.
//!
//! As PID 1 init inherits every orphan of the sandbox, so it collects any child.
//!
//! Invariant: a pid is in the table from before its status can be collected until it is. Init has
//! one thread and collects only in `reap`, apart from a child that never became its program, which
//! `start` collects before control returns to the loop. So a pid in the table is that process, and
//! may be signalled.

use std::os::fd::OwnedFd;

use sandboxd_linux::process::{Ended, collect_any, kill};
use sandboxd_linux::protocol::MAX_EXECS;

use super::warden::Leash;

/// An exec whose first process was not collected yet.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) pid: u32,
    pub(super) exec: u32,
    pub(super) process: Process,
}

/// What init started for an exec.
#[derive(Debug)]
pub(super) enum Process {
    /// The program itself.
    Main {
        /// Our ends of the program's output. Closed after its exit was reported: closed earlier, they
        /// would wake the agent once more, while the process is still dying.
        #[expect(dead_code, reason = "held for the sake of its drop")]
        output: [OwnedFd; 2],
    },
    /// A warden, which starts and reports the program.
    Warden(Leash),
}

/// The running execs. Never longer than [`MAX_EXECS`], for which there is room from the start.
#[derive(Debug)]
pub(super) struct Reaper {
    running: Vec<Running>,
}

impl Reaper {
    pub(super) fn new() -> Self {
        // Pages of the table that are never reached cost nothing.
        Self { running: Vec::with_capacity(MAX_EXECS) }
    }

    pub(super) fn is_full(&self) -> bool {
        self.running.len() >= MAX_EXECS
    }

    pub(super) fn add(&mut self, running: Running) {
        self.running.push(running);
    }

    /// Signals the main process of an exec; one that has ended is left alone.
    pub(super) fn signal(&self, exec: u32, signal: i32) {
        let Some(running) = self.find(exec) else { return };
        match &running.process {
            // A number that is no signal does nothing: the agent has checked it.
            Process::Main { .. } => drop(kill(running.pid, signal)),
            Process::Warden(leash) => leash.signal(signal),
        }
    }

    /// Signals every process of an exec that a warden contains.
    pub(super) fn signal_all(&self, exec: u32, signal: i32) {
        if let Some(Running { process: Process::Warden(leash), .. }) = self.find(exec) {
            leash.signal_all(signal);
        }
    }

    fn find(&self, exec: u32) -> Option<&Running> {
        self.running.iter().find(|running| running.exec == exec)
    }

    /// Collects every child that has ended and reports those execs that have ended with it.
    pub(super) fn reap(&mut self, mut report: impl FnMut(&Running, &Ended)) {
        // An error means that there are no children.
        while let Ok(Some(ended)) = collect_any() {
            let index = self.running.iter().position(|running| running.pid == ended.pid);
            // An adopted orphan has no entry: collecting it is all there is to do.
            let Some(index) = index else { continue };
            let running = self.running.swap_remove(index);
            match &running.process {
                // It reports the program's end itself, unless it was killed before.
                Process::Warden(leash) if leash.has_reported() => {}
                _ => report(&running, &ended),
            }
        }
    }
}
