//! The start of an exec: everything that can be refused is refused before init hears of it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rustix::fs::{MemfdFlags, memfd_create};
use sandboxd_linux::protocol::{Containment, ExecRequest, MAX_PACKET, ToInit};
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::clocks::Clocks;
use super::command::Payload;
use super::descriptors::{self, Ours};
use super::driver::{Driver, Flow, Reply, StdinPipe};
use super::entry::Exec;
use super::finish::Operands;
use super::output::Output;
use super::spill::{Space, Spill};
use super::stdin::Stdin;
use super::table::{Fingerprint, Start, forgotten};
use super::terminal::{self, Terminal};
use super::window::Policy;
use crate::call::Answer;
use crate::lock::lock;
use crate::sandboxes::{Enclosure, Sandbox, cpu_count, unix_nanos};

/// Fields of an order beside its payload and groups. Generous: the rest is what travels in a packet.
const ORDER_FIELDS: usize = 8 * 1024;

/// How an exec is fed and read.
#[derive(Debug, Clone)]
pub(crate) enum Mode {
    /// `Run`: all input at once, bounded output at the end.
    Run { stdin: Option<Bytes>, keep: usize },
    /// `Start`: input by writes, output by readers.
    Start { stdin: bool, control: bool, output: Policy, window: usize },
}

/// What a start leads to.
#[derive(Debug)]
pub(crate) enum Started {
    /// An exec that was just begun, to be driven by the caller.
    New(Arc<Exec>, Box<Driver>),
    /// One that was begun before.
    Known(Arc<Exec>),
}

/// What an id leads to.
pub(crate) enum Entered {
    /// A new exec, to be begun or abandoned by the caller.
    New(Entry),
    /// One that was entered before.
    Known(Arc<Exec>),
}

/// An exec that is in the table, and was not begun yet.
pub(crate) struct Entry {
    pub(crate) exec: Arc<Exec>,
    at: Instant,
    /// Others that ran then.
    others: usize,
    /// How many the sandbox had started before it.
    earlier_starts: u64,
}

impl Entry {
    /// Counts from now on, when every other exec of the sandbox is frozen.
    pub(crate) fn begin_alone(&mut self, sandbox: &Sandbox) {
        self.at = Instant::now();
        self.others = 0;
        self.earlier_starts = sandbox.execs().starts().saturating_sub(1);
    }
}

/// Starts `command`, or finds the exec that was started with the same id.
///
/// The command has passed [`super::command::check`].
///
/// # Errors
///
/// `exec_conflict` when the id names another command; what keeps it from starting otherwise.
pub(crate) fn start(
    sandbox: &Arc<Sandbox>,
    enclosure: &Arc<Enclosure>,
    exec_id: &str,
    command: &v1::Command,
    mode: &Mode,
    space: &Arc<Space>,
) -> Answer<Started> {
    let entry = match enter(sandbox, exec_id, command, mode, space)? {
        Entered::New(entry) => entry,
        Entered::Known(exec) => return Ok(Started::Known(exec)),
    };
    match begin(sandbox, enclosure, &entry, command, mode) {
        Ok(driver) => Ok(Started::New(entry.exec, driver)),
        Err(error) => {
            abandon(sandbox, &entry.exec, error.clone());
            if let Some(leaf) = lock(&entry.exec.state).leaf.take() {
                enclosure.leaves.give_back(leaf, false);
            }
            Err(error)
        }
    }
}

/// Enters a command under its id.
///
/// # Errors
///
/// As [`start`].
pub(crate) fn enter(
    sandbox: &Sandbox,
    exec_id: &str,
    command: &v1::Command,
    mode: &Mode,
    space: &Arc<Space>,
) -> Answer<Entered> {
    let now = Instant::now();
    // A terminal always takes input. Where there is none, its end is typed at once.
    let terminal = command.pty.is_some();
    let (outputs, stdin, control) = match mode {
        Mode::Run { stdin, keep } => {
            let output = || Output::head_tail(*keep, space);
            let data = stdin.as_deref().or(terminal.then_some(&[]));
            ([output(), output()], data.map(Stdin::whole), false)
        }
        Mode::Start { stdin, control, output, window } => {
            let output = || Output::window(*output, *window, space);
            ([output(), output()], (*stdin || terminal).then(Stdin::default), *control)
        }
    };
    let number = sandbox.execs().next_number();
    let spill = Spill::new(space);
    let exec = Exec::new(exec_id.into(), number, unix_nanos(), outputs, stdin, control, spill);
    let earlier_starts = sandbox.execs().starts();
    let others = match sandbox.execs().start(fingerprint(command, mode), &exec)? {
        (Start::New, others) => others,
        (Start::Known(exec), _) => return Ok(Entered::Known(exec)),
        (Start::Conflict, _) => {
            let message = format!("exec_id {exec_id:?} names another command: choose a new one");
            return Err(CallError::new(ErrorCode::ExecConflict, message));
        }
        (Start::Forgotten, _) => return Err(forgotten(exec_id)),
        (Start::Full, running) => {
            let message = format!("{running} commands run in the sandbox, as many as can at once");
            return Err(CallError::new(ErrorCode::ResourceExhausted, message));
        }
    };
    Ok(Entered::New(Entry { exec, at: now, others, earlier_starts }))
}

/// Orders what was entered, in `enclosure`.
///
/// # Errors
///
/// What keeps it from starting.
pub(crate) fn begin(
    sandbox: &Arc<Sandbox>,
    enclosure: &Arc<Enclosure>,
    entry: &Entry,
    command: &v1::Command,
    mode: &Mode,
) -> Answer<Box<Driver>> {
    let exec = &entry.exec;
    let before = enclosure.baseline(entry.others > 0);
    let ours = order(sandbox, enclosure, exec, command, mode)?;
    sandbox.counters.execs_started.add(1);
    Ok(Box::new(Driver {
        sandbox: Arc::clone(sandbox),
        enclosure: Arc::clone(enclosure),
        exec: Arc::clone(exec),
        outputs: ours.outputs,
        stdin: ours.stdin.map(StdinPipe::Unwatched),
        terminal: command.pty.is_some(),
        control: ours.control.map(StdinPipe::Unwatched),
        reply: Reply::default(),
        started: entry.at,
        clocks: Clocks::new(command, entry.at, || cores(sandbox)),
        output_limit: sandbox.spec.limits.output_bytes,
        before,
        earlier_starts: entry.earlier_starts,
        operands: Operands::new(command),
        flow: <[Flow; 2]>::default(),
    }))
}

/// Ends an exec that was entered and cannot be begun: its id can be used again, and whoever attached
/// meanwhile hears `error`.
pub(crate) fn abandon(sandbox: &Sandbox, exec: &Exec, error: CallError) {
    sandbox.execs().withdraw(exec);
    lock(&exec.state).outcome = Some(Err(error));
    exec.changed.notify_waiters();
}

/// Sends the order to init, with the other ends of the pipes.
fn order(
    sandbox: &Sandbox,
    enclosure: &Enclosure,
    exec: &Exec,
    command: &v1::Command,
    mode: &Mode,
) -> Answer<Ours> {
    let identity = enclosure.identity(&command.user, &sandbox.spec)?;
    let spec_cwd = &sandbox.spec.cwd;
    let cwd = if spec_cwd.is_empty() { &identity.directory } else { spec_cwd };
    let payload = Payload::new(command, &identity.environment, cwd)?;

    let (stdin, control) = {
        let state = lock(&exec.state);
        (state.stdin.is_some(), state.control.is_some())
    };
    let made = match command.pty {
        None => descriptors::piped(stdin, control),
        Some(size) => terminal::open(&*enclosure.root, enclosure.ids, &identity, size)
            .and_then(|terminal| descriptors::on_terminal(terminal, control)),
    };
    let (mut ours, theirs) = made.map_err(|error| match command.pty {
        None => out_of("a pipe", &error),
        Some(_) if terminal::is_barred(&error) => {
            let message = format!("the sandbox has barred its terminals: {error}");
            CallError::new(ErrorCode::ExecFailed, message).with_reason("descriptor")
        }
        Some(_) => out_of("a terminal", &error),
    })?;

    let Payload { bytes, argc, envc } = payload;
    let in_memfd = bytes.len() + ORDER_FIELDS > MAX_PACKET;
    let memfd = in_memfd
        .then(|| in_memory(&bytes))
        .transpose()
        .map_err(|error| out_of("memory", &error))?;
    // Last of all that can fail but the sending, so that it is given back in one place.
    let exact = command.cpu_time_limit_ns.is_some();
    let leaf = enclosure.take_leaf(exact).map_err(|error| out_of("a cgroup", &error))?;
    let request = ExecRequest {
        exec: exec.number,
        containment: enclosure.containment,
        null_stdin: !theirs.has_stdin(),
        terminal: theirs.is_terminal(),
        want_started: matches!(mode, Mode::Start { .. }),
        uid: identity.uid,
        gid: identity.gid,
        groups: identity.groups.clone(),
        argc,
        envc,
        payload: if in_memfd { Vec::new() } else { bytes },
        payload_in_memfd: in_memfd,
    };
    let mut borrowed: Vec<BorrowedFd<'_>> = Vec::with_capacity(5);
    theirs.put(&mut borrowed);
    borrowed.extend(memfd.as_ref().map(OwnedFd::as_fd));
    borrowed.extend(leaf.as_ref().map(|leaf| leaf.as_fd()));
    let sent = enclosure.init.send(&ToInit::Exec(request).encode(), &borrowed);
    // Only now, so that whoever signals the exec finds its processes.
    let mut state = lock(&exec.state);
    state.leaf = leaf;
    if let Some(terminal) = ours.terminal.take() {
        state.terminal = Terminal::Open(terminal);
    }
    drop(state);
    sent.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => out_of("a place in the queue of the sandbox", &error),
        _ => sandbox.lost_error("init_died"),
    })?;
    Ok(ours)
}

/// Processors that a command can keep busy at most.
fn cores(sandbox: &Sandbox) -> u32 {
    let seen = std::thread::available_parallelism()
        .map_or(u32::MAX, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    sandbox.spec.limits.cpu_millis.map_or(seen, |millis| cpu_count(millis).min(seen))
}

/// A file in memory that holds `bytes`, with its offset at their beginning.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create("exec", MemfdFlags::CLOEXEC)?;
    let mut written = 0;
    while written < bytes.len() {
        written += rustix::io::pwrite(&file, &bytes[written..], written as u64)?;
    }
    Ok(file)
}

fn out_of(what: &str, error: &io::Error) -> CallError {
    let message = format!("agent cannot get {what} for the command: {error}");
    CallError::new(ErrorCode::ResourceExhausted, message)
}

/// Tells one command from another. A collision would take a caller who reuses ids for different
/// commands, and 2⁶⁴ tries.
fn fingerprint(command: &v1::Command, mode: &Mode) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    let v1::Command {
        argv,
        shell,
        env,
        cwd,
        user,
        timeout_ns,
        idle_output_timeout_ns,
        cpu_time_limit_ns,
        pty,
        grader,
    } = command;
    (argv, shell, env, cwd, user).hash(&mut hasher);
    (timeout_ns, idle_output_timeout_ns, cpu_time_limit_ns).hash(&mut hasher);
    (pty.map(|pty| (pty.rows, pty.columns)), grader).hash(&mut hasher);
    match mode {
        // How much is kept is a matter of the answer, not of the command.
        Mode::Run { stdin, keep: _ } => stdin.hash(&mut hasher),
        Mode::Start { stdin: false, control: false, .. } => None::<Bytes>.hash(&mut hasher),
        Mode::Start { stdin: true, control: false, .. } => 2_u8.hash(&mut hasher),
        Mode::Start { stdin, control: true, .. } => (3_u8, stdin).hash(&mut hasher),
    }
    hasher.finish()
}

/// How the leaves of a sandbox are entered, as [`ExecRequest`] wants it.
pub(crate) const fn has_leaves(containment: Containment) -> bool {
    !matches!(containment, Containment::Subreaper)
}
