//! The end of an exec: what was measured becomes its outcome, its callers hear of it, and the tables
//! learn of it.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sandboxd_linux::cgroup::Leaf;
use sandboxd_linux::protocol::{Failure, Step};
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::cause::{EndedBy, Exit, Facts, Hit, Suspect, cause};
use super::command::SHELL;
use super::cost;
use super::entry::{Exec, Exited};
use super::output::STDOUT;
use super::stdin::Stdin;
use super::table::Size;
use super::terminal::Terminal;
use crate::lock::lock;
use crate::sandboxes::{Baseline, Enclosure, Sandbox};

/// What the driver measured around an exec.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) ended_by: Option<EndedBy>,
    pub(crate) duration: Duration,
    pub(crate) cpu_limit: Option<Duration>,
    /// What was known of the sandbox at the start.
    pub(crate) before: Baseline,
    /// How many execs the sandbox had started before it.
    pub(crate) earlier_starts: u64,
    pub(crate) shell_line: bool,
}

/// What a command names that may be missing.
#[derive(Debug)]
pub(crate) struct Operands {
    /// `None` for a shell line.
    program: Option<Bytes>,
    directory: Bytes,
}

impl Operands {
    pub(crate) fn new(command: &v1::Command) -> Self {
        Self { program: command.argv.first().cloned(), directory: command.cwd.clone() }
    }

    pub(crate) fn is_shell_line(&self) -> bool {
        self.program.is_none()
    }

    fn program(&self) -> &[u8] {
        self.program.as_deref().unwrap_or(SHELL)
    }
}

/// Ends an exec that was not started: its id can be used again.
pub(crate) fn never_ran(sandbox: &Sandbox, exec: &Exec, failure: &Failure, operands: &Operands) {
    sandbox.execs().withdraw(exec);
    sandbox.counters.exec_never_ran();
    conclude_unlisted(exec, Err(start_error(sandbox, failure, operands)));
}

/// Ends an exec whose sandbox is gone.
pub(crate) fn lost(sandbox: &Sandbox, exec: &Exec) {
    let error = lock(&exec.state).lost.clone().unwrap_or_else(|| sandbox.lost_error("unknown"));
    conclude(sandbox, exec, Err(error.maybe_run(true)));
}

/// Sets the outcome, and enters it into the table.
pub(crate) fn conclude(sandbox: &Sandbox, exec: &Exec, outcome: Result<v1::ExecEnd, CallError>) {
    match &outcome {
        Ok(end) => sandbox.counters.exec_ended(end),
        Err(_) => sandbox.counters.exec_lost(),
    }
    let written = lock(&exec.state).stdin.as_ref().map_or(0, Stdin::taken);
    sandbox.counters.stdin_bytes.add(written);
    let memory = conclude_unlisted(exec, outcome);
    let kept = Size { memory, disk: exec.spill.used() };
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
    if let Some(control) = &mut state.control {
        control.close();
    }
    if matches!(state.terminal, Terminal::Open(_)) {
        state.terminal = Terminal::Closed;
    }
    state.readers.wake();
    drop(state);
    exec.changed.notify_waiters();
    kept
}

/// Whether an exec ended because it met a limit of the sandbox.
pub(crate) fn is_limit(end: &v1::ExecEnd) -> bool {
    use v1::Cause::{CpuLimit, DiskLimit, MemoryLimit, OutputLimit, PidsLimit};
    matches!(end.cause(), CpuLimit | DiskLimit | MemoryLimit | OutputLimit | PidsLimit)
}

/// Reads the counters, and decides about the cause.
pub(crate) fn measure(
    sandbox: &Sandbox,
    enclosure: &Enclosure,
    exec: &Exec,
    exited: Exited,
    measured: &Measured,
) -> v1::ExecEnd {
    let exit = Exit::from_wait_status(exited.status);
    let mut state = lock(&exec.state);
    let (stdout_total_bytes, stderr_total_bytes) = state.totals();
    let whole = measured.ended_by.is_some() || measured.cpu_limit.is_some();
    let cpu_time = cost::cpu_time(state.leaf.as_mut(), &exited.usage, measured.duration, whole);
    let hash = |stream: usize| {
        let hash = state.outputs[stream].sha256();
        hash.map_or_else(Bytes::new, |hash| Bytes::copy_from_slice(&hash))
    };
    let (stdout_sha256, stderr_sha256) = (hash(STDOUT), hash(1 - STDOUT));
    drop(state);
    let limits = &sandbox.spec.limits;
    let before = &measured.before;
    let grown = enclosure.hits_since(before);
    // Its own start is the only one since. Background children of an exec that ended shortly before
    // it began may have become known only now.
    let alone = before.alone
        && sandbox.execs().starts() == measured.earlier_starts + 1
        && !enclosure.leaves.any_lingering();
    let suspect = Suspect { exit, shell_line: measured.shell_line, alone };
    let hit = |limit: Option<u64>, peak: Option<u64>| {
        limit.map(|limit| Hit { limit, peak: peak.unwrap_or(limit).min(limit) })
    };
    let memory = (grown.oom_kills > 0 && suspect.met_memory_limit())
        .then(|| hit(limits.memory_bytes, enclosure.memory_peak()));
    let pids = (grown.pids_refusals > 0 && suspect.met_pids_limit())
        .then(|| hit(limits.pids.map(u64::from), None));
    let disk = suspect.met_disk_limit(before.had_room).then(|| enclosure.full_disk());
    let facts = Facts {
        exit,
        ended_by: measured.ended_by,
        duration: measured.duration,
        cpu_limit: measured.cpu_limit,
        cpu_time,
        output: stdout_total_bytes + stderr_total_bytes,
        memory: memory.flatten(),
        pids: pids.flatten(),
        disk: disk.flatten(),
    };
    let (cause, hit) = cause(&facts);
    let io = cost::io_bytes(&exited.usage);
    let (exit_code, signal) = match exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
    };
    let peak_memory_bytes = match (cause, hit) {
        // The peak of the whole sandbox is the one that met the limit.
        (v1::Cause::MemoryLimit, Some(hit)) => hit.peak,
        _ => exited.usage.peak_kib.saturating_mul(1024),
    };
    v1::ExecEnd {
        cause: cause.into(),
        exit_code,
        signal,
        duration_ns: nanoseconds(measured.duration),
        cpu_time_ns: nanoseconds(cpu_time),
        peak_memory_bytes,
        limit: hit.map(|hit| hit.limit),
        limit_peak: hit.map(|hit| hit.peak),
        stdout_total_bytes,
        stderr_total_bytes,
        io_read_bytes: io.map(|(read, _)| read),
        io_write_bytes: io.map(|(_, written)| written),
        stdout_sha256,
        stderr_sha256,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Adds what was killed after the exec had ended by itself to what it has cost.
pub(crate) fn add_killed(exec: &Exec, end: &mut v1::ExecEnd) {
    let state = lock(&exec.state);
    let more = state.leaf.as_ref().and_then(Leaf::used_nanos).unwrap_or_default();
    end.cpu_time_ns = end.cpu_time_ns.saturating_add(more);
}

/// The error of a command that was not started, by the step that failed.
fn start_error(sandbox: &Sandbox, failure: &Failure, operands: &Operands) -> CallError {
    let what = io::Error::from_raw_os_error(failure.errno);
    let detail = &failure.detail;
    let failed =
        |step, message: String| CallError::new(ErrorCode::ExecFailed, message).with_reason(step);
    match failure.step {
        Step::Table => {
            let message = "the sandbox runs as many commands as it can at once";
            CallError::new(ErrorCode::ResourceExhausted, message)
        }
        Step::Fork => failed(
            "fork",
            format!(
                "no process can be made in the sandbox: {what}; its limits on processes or memory \
                 are used up"
            ),
        ),
        Step::User => failed("user", format!("cannot become the user: {what}")),
        Step::Directory => {
            let named = [&*operands.directory, &sandbox.spec.cwd];
            let shown = named.into_iter().find(|path| !path.is_empty()).map(shown);
            let directory = shown.unwrap_or_else(|| "of the user (its home)".to_owned());
            failed("directory", format!("cannot enter directory {directory}: {what}"))
        }
        Step::Program => {
            failed("program", format!("cannot start {}: {what}", shown(operands.program())))
        }
        Step::Descriptor => failed("descriptor", format!("cannot set up a descriptor: {what}")),
        Step::Cgroup => failed("cgroup", format!("cannot enter the command's cgroup: {what}")),
        Step::Namespaces
        | Step::IdMap
        | Step::Mount
        | Step::Network
        | Step::Capabilities
        | Step::Seccomp
        | Step::Other => failed("other", format!("cannot start the command: {detail}: {what}")),
    }
}

/// A path for people; a long one is cut.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(&path[..path.len().min(256)]).into_owned()
}
