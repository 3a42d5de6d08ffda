//! One exec: what its callers, its driver and init's reports have in common.
//!
//! The driver ([`super::driver`]) alone reads the pipes and decides the end; everyone else leaves
//! word here and wakes it. The outcome is set once.

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use sandboxd_linux::cgroup::Leaf;
use sandboxd_linux::protocol::{Failure, Usage};
use sandboxd_proto::{CallError, v1};
use tokio::sync::Notify;

use super::clocks::Observed;
use super::collect::collect;
use super::output::{Output, STDOUT};
use super::readers::Readers;
use super::spill::Spill;
use super::stdin::Stdin;
use super::terminal::Terminal;
use crate::call::Answer;
use crate::lock::lock;

/// An exec of a sandbox.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) id: Arc<str>,
    /// Its number between agent and init.
    pub(crate) number: u32,
    pub(crate) started_unix_ns: u64,
    pub(crate) state: Mutex<ExecState>,
    /// Something that callers wait for has happened: it runs, it ended, stdin has room.
    pub(crate) changed: Notify,
    /// Where output goes that does not fit into memory.
    pub(crate) spill: Arc<Spill>,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct ExecState {
    /// Who reads the pipes.
    pub(crate) driver: Option<Waker>,
    /// What init said about the end.
    pub(crate) report: Option<Report>,
    pub(crate) canceled: bool,
    /// The sandbox is gone.
    pub(crate) lost: Option<CallError>,
    /// Inside the sandbox; 0 until it is known.
    pub(crate) pid: u32,
    pub(crate) outcome: Option<Answer<v1::ExecEnd>>,
    pub(crate) outputs: [Output; 2],
    /// The driver does not read because there is no room.
    pub(crate) held_back: bool,
    pub(crate) readers: Readers,
    /// `None` if it is the null device.
    pub(crate) stdin: Option<Stdin>,
    /// What goes to the control socket, if there is one: then stderr is what comes from it.
    pub(crate) control: Option<Stdin>,
    pub(crate) terminal: Terminal,
    /// Where its processes are, unless a subreaper holds them.
    pub(crate) leaf: Option<Leaf>,
}

/// Init's last word on an exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    Exited(Exited),
    NeverRan(Failure),
}

/// What the kernel said of the main process when it was reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exited {
    /// As `wait(2)` gives it.
    pub(crate) status: i32,
    pub(crate) usage: Usage,
}

impl ExecState {
    pub(crate) fn wake_driver(&self) {
        if let Some(waker) = &self.driver {
            waker.wake_by_ref();
        }
    }
}

impl Observed for ExecState {
    fn is_held_back(&self) -> bool {
        self.held_back
    }

    fn cpu_time(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.leaf.as_ref()?.used_nanos()?))
    }
}

impl Exec {
    pub(crate) fn new(
        id: Arc<str>,
        number: u32,
        started_unix_ns: u64,
        outputs: [Output; 2],
        stdin: Option<Stdin>,
        control: bool,
        spill: Arc<Spill>,
    ) -> Arc<Self> {
        let state = ExecState {
            driver: None,
            report: None,
            canceled: false,
            lost: None,
            pid: 0,
            outcome: None,
            outputs,
            held_back: false,
            readers: Readers::default(),
            stdin,
            control: control.then(Stdin::default),
            terminal: Terminal::None,
            leaf: None,
        };
        let state = Mutex::new(state);
        Arc::new(Self { id, number, started_unix_ns, state, changed: Notify::new(), spill })
    }

    /// Init has started the main process.
    pub(crate) fn set_started(&self, pid: u32) {
        lock(&self.state).pid = pid;
        self.changed.notify_waiters();
    }

    /// Init has said its last word.
    pub(crate) fn set_report(&self, report: Report) {
        let mut state = lock(&self.state);
        state.report = Some(report);
        state.wake_driver();
    }

    /// The sandbox is gone.
    pub(crate) fn lose(&self, error: CallError) {
        let mut state = lock(&self.state);
        state.lost = Some(error);
        state.wake_driver();
    }

    /// Asks for the end. Returns whether it was still running.
    pub(crate) fn cancel(&self) -> bool {
        let mut state = lock(&self.state);
        if state.outcome.is_some() {
            return false;
        }
        state.canceled = true;
        state.wake_driver();
        true
    }

    /// Waits until `found` finds what it looks for.
    pub(crate) async fn wait<T>(&self, mut found: impl FnMut(&mut ExecState) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = found(&mut lock(&self.state)) {
                return found;
            }
            changed.await;
        }
    }

    /// Waits until the main process runs, or never will. Returns its pid.
    pub(crate) async fn started(&self) -> Answer<u32> {
        self.wait(|state| match &state.outcome {
            Some(Err(error)) => Some(Err(error.clone())),
            Some(Ok(_)) => Some(Ok(state.pid)),
            None => (state.pid != 0).then_some(Ok(state.pid)),
        })
        .await
    }

    /// Waits for the end. Returns it with what is kept of the output: of an exec that was not begun
    /// by `Run`, at most `limit` bytes of each stream.
    pub(crate) async fn result(&self, limit: usize) -> Answer<v1::ExecRunResponse> {
        let end = self.wait(|state| state.outcome.clone()).await?;
        let stdout = collect(self, STDOUT, limit).await?;
        let stderr = collect(self, 1 - STDOUT, limit).await?;
        Ok(v1::ExecRunResponse {
            end: Some(end),
            stdout_head_bytes: stdout.head.map(|bytes| bytes as u64),
            stderr_head_bytes: stderr.head.map(|bytes| bytes as u64),
            stdout: stdout.bytes,
            stderr: stderr.bytes,
        })
    }

    pub(crate) fn summary(&self) -> v1::ExecSummary {
        let state = lock(&self.state);
        v1::ExecSummary {
            exec_id: self.id.to_string(),
            running: state.outcome.is_none(),
            pid: state.pid,
            started_unix_ns: self.started_unix_ns,
            end: state.outcome.clone().and_then(Result::ok),
            stdin_offset: state.stdin.as_ref().map(Stdin::taken),
            stdin_ended: state.stdin.as_ref().is_some_and(Stdin::has_ended),
        }
    }
}

impl ExecState {
    /// Bytes that the program wrote, standard output and standard error.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.outputs[STDOUT].total(), self.outputs[1 - STDOUT].total())
    }
}
