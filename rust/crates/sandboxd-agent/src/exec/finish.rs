//! The end of an exec: what was measured becomes its outcome, its callers hear of it, and the tables
//! learn of it.

use std::io;
use std::time::{Duration, Instant};

use sandboxd_linux::cgroup::Counters;
use sandboxd_linux::protocol::{Failure, Step};
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::cause::{EndedBy, Exit, Facts, Hit, cause};
use super::entry::{Exec, Report};
use crate::lock::lock;
use crate::sandboxes::{Enclosure, Sandbox};

/// What the driver measured around an exec.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) ended_by: Option<EndedBy>,
    pub(crate) duration: Duration,
    /// The kernel's counters at the start.
    pub(crate) counters: Counters,
    /// Other execs ran beside it when it started.
    pub(crate) overlapped: bool,
}

/// Ends an exec of which init has said its last word.
pub(crate) fn settle(
    sandbox: &Sandbox,
    enclosure: &Enclosure,
    exec: &Exec,
    report: Report,
    measured: &Measured,
) {
    match report {
        Report::Exited { status, cpu_nanos, peak_kib } => {
            let exit = Exit::from_wait_status(status);
            let end = end(sandbox, enclosure, exec, exit, measured);
            let end = v1::ExecEnd { cpu_time_ns: cpu_nanos, ..end };
            let peak_memory_bytes = match end.cause() {
                // The peak of the whole sandbox is the one that met the limit.
                v1::Cause::MemoryLimit => end.limit_peak.unwrap_or_default(),
                _ => peak_kib.saturating_mul(1024),
            };
            conclude(sandbox, exec, Ok(v1::ExecEnd { peak_memory_bytes, ..end }));
        }
        Report::NeverRan(failure) => {
            sandbox.execs().withdraw(exec);
            conclude_unlisted(exec, Err(never_ran(&failure)));
        }
    }
}

/// Ends an exec whose sandbox is gone.
pub(crate) fn lost(sandbox: &Sandbox, exec: &Exec) {
    let error = lock(&exec.state).lost.clone().unwrap_or_else(|| sandbox.lost_error("unknown"));
    conclude(sandbox, exec, Err(error.maybe_run(true)));
}

fn conclude(sandbox: &Sandbox, exec: &Exec, outcome: Result<v1::ExecEnd, CallError>) {
    let kept = conclude_unlisted(exec, outcome);
    let forgotten = sandbox.execs().finish(exec, kept, Instant::now());
    drop(forgotten);
}

/// Sets the outcome. Returns how many bytes of output stay in memory.
fn conclude_unlisted(exec: &Exec, outcome: Result<v1::ExecEnd, CallError>) -> usize {
    let mut state = lock(&exec.state);
    let kept = state.outputs.iter_mut().map(super::output::Output::settle).sum();
    state.outcome = Some(outcome);
    state.driver = None;
    if let Some(stdin) = &mut state.stdin {
        stdin.close();
    }
    state.readers.wake();
    drop(state);
    exec.changed.notify_waiters();
    kept
}

fn end(
    sandbox: &Sandbox,
    enclosure: &Enclosure,
    exec: &Exec,
    exit: Exit,
    measured: &Measured,
) -> v1::ExecEnd {
    let (stdout_total_bytes, stderr_total_bytes) = lock(&exec.state).totals();
    let limits = &sandbox.spec.limits;
    let grown = enclosure.count_since(&measured.counters);
    let alone = !measured.overlapped && sandbox.execs().running() <= 1;
    let clean = exit == Exit::Code(0);
    // The kernel counts for the whole sandbox. With several execs at once, growth is this one's only
    // if it ended as one does that met the limit; 137 is what shells make of SIGKILL.
    let killed = matches!(exit, Exit::Signal(9) | Exit::Code(137));
    let hit = |limit: Option<u64>, peak: Option<u64>| {
        limit.map(|limit| Hit { limit, peak: peak.unwrap_or(limit).min(limit) })
    };
    let memory = (grown.oom_kills > 0 && (alone || killed))
        .then(|| hit(limits.memory_bytes, grown.memory_peak_bytes));
    let pids = (grown.pids_refusals > 0 && (alone || !clean))
        .then(|| hit(limits.pids.map(u64::from), None));
    let disk = (!clean).then(|| enclosure.full_disk()).flatten();
    let facts = Facts {
        exit,
        ended_by: measured.ended_by,
        duration: measured.duration,
        output: stdout_total_bytes + stderr_total_bytes,
        memory: memory.flatten(),
        pids: pids.flatten(),
        disk: disk.filter(|_| limits.disk_bytes.is_some()),
    };
    let (cause, hit) = cause(&facts);
    let (exit_code, signal) = match exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
    };
    v1::ExecEnd {
        cause: cause.into(),
        exit_code,
        signal,
        duration_ns: u64::try_from(measured.duration.as_nanos()).unwrap_or(u64::MAX),
        cpu_time_ns: 0,
        peak_memory_bytes: 0,
        limit: hit.map(|hit| hit.limit),
        limit_peak: hit.map(|hit| hit.peak),
        stdout_total_bytes,
        stderr_total_bytes,
    }
}

/// The error of a command that was not started, by the step that failed.
fn never_ran(failure: &Failure) -> CallError {
    let what = io::Error::from_raw_os_error(failure.errno);
    let detail = &failure.detail;
    let (code, step, message) = match failure.step {
        Step::Table => {
            let message = "the sandbox runs as many commands as it can at once".to_owned();
            (ErrorCode::ResourceExhausted, "table", message)
        }
        Step::Fork => {
            let message = format!(
                "no process can be made in the sandbox: {what}; its limits on processes or memory \
                 are used up"
            );
            (ErrorCode::ExecFailed, "fork", message)
        }
        Step::User => (ErrorCode::ExecFailed, "user", format!("cannot become the user: {what}")),
        Step::Directory => {
            (ErrorCode::ExecFailed, "directory", format!("cannot enter directory {detail}: {what}"))
        }
        Step::Program => {
            (ErrorCode::ExecFailed, "program", format!("cannot start {detail}: {what}"))
        }
        Step::Descriptor => {
            (ErrorCode::ExecFailed, "descriptor", format!("cannot set up a descriptor: {what}"))
        }
        Step::Cgroup => {
            (ErrorCode::ExecFailed, "cgroup", format!("cannot enter the command's cgroup: {what}"))
        }
        _ => {
            (ErrorCode::ExecFailed, "other", format!("cannot start the command: {detail}: {what}"))
        }
    };
    CallError::new(code, message).with_reason(step)
}
