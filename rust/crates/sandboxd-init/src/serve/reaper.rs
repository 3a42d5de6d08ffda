//! Child reaping: the only code in init that collects the statuses of execs.
//!
//! As PID 1 init inherits every orphan of the sandbox, so it collects any child.
//!
//! Invariant: a pid is in the table from before its status can be collected until it is. Init has
//! one thread and collects only in `reap`, apart from a child that never became its program, which
//! `start` collects before control returns to the loop. So a pid in the table is that process, and
//! may be signalled. The exception is the program of a warden that was killed: its pid is only ever
//! waited for.
//!
//! Every process of an exec with a warden is below that warden. So a child of init that is not in the
//! table descends from a warden that was killed, and is killed for it: whoever kills a warden, its
//! own or another's, ends what it watched.

use std::os::fd::OwnedFd;

use sandboxd_linux::process::{Ended, collect_any, kill, next_stopped};
use sandboxd_linux::protocol::MAX_EXECS;

use super::descendants::{self, Kill};
use super::warden::{Leash, Told};

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
    Warden {
        leash: Leash,
        /// Whether it is being killed, with everything below.
        doomed: bool,
    },
    /// The program of a warden that was killed before it had reported the program's end. Holds what
    /// to report when nothing of the exec is left: how the program ended, or at least its warden.
    Orphaned(Ended),
}

/// The running execs. Never more than [`MAX_EXECS`], for which there is room from the start.
#[derive(Debug)]
pub(super) struct Reaper {
    running: Vec<Running>,
    /// Whether there has ever been a warden.
    wardens: bool,
    /// While processes of wardens are being killed.
    kill: Option<Kill>,
}

impl Reaper {
    pub(super) fn new() -> Self {
        // Pages of the table that are never reached cost nothing.
        Self { running: Vec::with_capacity(MAX_EXECS), wardens: false, kill: None }
    }

    pub(super) fn is_full(&self) -> bool {
        self.running.len() >= MAX_EXECS
    }

    pub(super) fn add(&mut self, running: Running) {
        self.wardens |= matches!(running.process, Process::Warden { .. });
        self.running.push(running);
    }

    /// Signals the main process of an exec; one that has ended is left alone.
    pub(super) fn signal(&self, exec: u32, signal: i32) {
        let Some(running) = self.find(exec) else { return };
        match &running.process {
            // A number that is no signal does nothing: the agent has checked it.
            Process::Main { .. } => drop(kill(running.pid, signal)),
            Process::Warden { leash, .. } => leash.signal(signal),
            Process::Orphaned(_) => {}
        }
    }

    /// Signals every process of an exec that a warden contains. SIGKILL is for [`Self::kill`] to
    /// deliver. Of one that a cgroup contains, the agent has killed everything already: what is left to
    /// do is to end whoever traces its main process, because only a tracer can keep a dead child from
    /// its parent.
    pub(super) fn signal_all(&mut self, exec: u32, signal: i32) {
        let running = self.running.iter_mut().find(|running| running.exec == exec);
        let (pid, doomed) = match running {
            Some(Running { pid, process: Process::Warden { doomed, .. }, .. }) => (pid, doomed),
            Some(Running { pid, process: Process::Main { .. }, .. }) if signal == libc::SIGKILL => {
                return descendants::kill_tracer(*pid);
            }
            _ => return,
        };
        if signal == libc::SIGKILL {
            *doomed = true;
            self.kill.get_or_insert_with(Kill::new);
        } else {
            descendants::signal(*pid, signal);
        }
    }

    fn find(&self, exec: u32) -> Option<&Running> {
        self.running.iter().find(|running| running.exec == exec)
    }

    /// Collects every child that has ended and reports those execs that have ended with it. Lets
    /// wardens go on that were stopped.
    pub(super) fn reap(&mut self, mut report: impl FnMut(u32, &Ended)) {
        // An error means that there are no children.
        while let Ok(Some(ended)) = collect_any() {
            let index = self.running.iter().position(|running| running.pid == ended.pid);
            // An adopted orphan has no entry: collecting it is all there is to do.
            if let Some(index) = index {
                self.collected(index, &ended, &mut report);
            }
        }
        if self.wardens {
            self.continue_wardens();
        }
    }

    fn collected(&mut self, index: usize, ended: &Ended, report: &mut impl FnMut(u32, &Ended)) {
        let running = &mut self.running[index];
        match &mut running.process {
            // It is reported with the last of its descendants.
            Process::Orphaned(known) => return *known = *ended,
            Process::Main { .. } => report(running.exec, ended),
            Process::Warden { leash, .. } => {
                // One that ends by itself has nothing left below.
                if ended.status != 0 {
                    self.kill.get_or_insert_with(Kill::new);
                }
                match leash.told() {
                    Told { reported: true, .. } => {}
                    // Ours to collect now, and not before this: the kernel puts adopted children
                    // behind those that we had.
                    Told { program: Some(program), .. } => {
                        running.pid = program;
                        running.process = Process::Orphaned(*ended);
                        return;
                    }
                    Told { program: None, .. } => report(running.exec, ended),
                }
            }
        }
        self.running.swap_remove(index);
    }

    /// Bounded, for others may stop them again as fast: of a later stop another signal tells.
    fn continue_wardens(&self) {
        let stopped = std::iter::from_fn(next_stopped).take(MAX_EXECS);
        for pid in stopped {
            let warden = |running: &Running| {
                running.pid == pid && matches!(running.process, Process::Warden { .. })
            };
            if self.running.iter().any(warden) {
                let _ = kill(pid, libc::SIGCONT);
            }
        }
    }

    /// Whether [`Self::kill`] has something to do.
    pub(super) const fn is_killing(&self) -> bool {
        self.kill.is_some()
    }

    /// Goes on killing, if it is time. Reports those execs of which nothing is left now.
    pub(super) fn kill(&mut self, mut report: impl FnMut(u32, &Ended)) {
        let Some(kill) = self.kill.as_mut().filter(|kill| kill.is_due()) else { return };
        let stay = self.running.iter().filter(|running| !running.is_doomed());
        let stay: Vec<u32> = stay.map(|running| running.pid).collect();
        if kill.round(&stay) {
            return;
        }
        self.kill = None;
        // Whoever has ended since the last time was still waiting to be collected, perhaps a warden
        // that somebody else has killed: then it all begins again.
        self.reap(&mut report);
        if self.kill.is_some() {
            return;
        }
        self.running.retain(|running| {
            let Process::Orphaned(ended) = &running.process else { return true };
            report(running.exec, ended);
            false
        });
        // A warden that is left was not found in `/proc`, for want of memory perhaps.
        if self.running.iter().any(Running::is_doomed) {
            self.kill = Some(Kill::new());
        }
    }
}

impl Running {
    /// Whether it goes with the next round of killing.
    const fn is_doomed(&self) -> bool {
        matches!(self.process, Process::Warden { doomed: true, .. } | Process::Orphaned(_))
    }
}
