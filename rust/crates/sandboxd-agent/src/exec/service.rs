//! The calls of `Exec`.

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sandboxd_linux::protocol::ToInit;
use sandboxd_proto::{CallError, ErrorCode, v1};

use super::attach::Attachment;
use super::command;
use super::entry::Exec;
use super::start::{Mode, Started, start};
use super::stdin::Write;
use super::table::{Find, forgotten};
use super::terminal::{self, Terminal};
use super::window::Policy;
use crate::agent::Agent;
use crate::call::{Answer, Events};
use crate::capabilities::Feature;
use crate::lock::lock;
use crate::sandboxes::{Enclosure, Sandbox, check_id};

/// Kept of each stream unless the request says otherwise.
const DEFAULT_KEEP: u64 = 8 * 1024 * 1024;

/// The most that can be asked for: two of these fit the longest frame that a client takes
/// ([`sandboxd_proto::frame::MAX_REPLY`]).
const MAX_KEEP: u64 = 256 * 1024 * 1024;

/// Kept of each stream of a `Start` in memory unless the request says otherwise.
const DEFAULT_WINDOW: u64 = 1024 * 1024;

/// What can be asked for.
const WINDOWS: RangeInclusive<u64> = 4096..=256 * 1024 * 1024;

/// Longest input of `Run`; its frame has a limit ([`sandboxd_proto::frame::MAX_REQUEST`]).
const MAX_RUN_STDIN: usize = 16 * 1024 * 1024;

/// Highest signal number of Linux.
const MAX_SIGNAL: u32 = 64;

/// How long a command waits for room for its process.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

impl Agent {
    /// Runs a command to its end. Dropping the future does not end the command.
    pub(crate) async fn exec_run(
        &self,
        request: v1::ExecRunRequest,
    ) -> Answer<v1::ExecRunResponse> {
        let v1::ExecRunRequest { sandbox_id, exec_id, command, stdin, max_output_bytes } = request;
        let keep = max_output_bytes.unwrap_or(DEFAULT_KEEP);
        let keep = usize::try_from(keep).ok().filter(|_| keep <= MAX_KEEP).ok_or_else(|| {
            invalid(format!("max_output_bytes is {keep}, above the limit of {MAX_KEEP}"))
        })?;
        if let Some(length) = stdin.as_ref().map(bytes::Bytes::len).filter(|l| *l > MAX_RUN_STDIN) {
            return Err(invalid(format!(
                "stdin has {length} bytes, above the limit of {MAX_RUN_STDIN}: use Start and \
                 WriteStdin, or a file"
            )));
        }
        let command = command.unwrap_or_default();
        let (sandbox, enclosure) = self.admit(&sandbox_id, &exec_id, &command).await?;
        let mode = Mode::Run { stdin, keep };
        if command.grader {
            let (exec, _) = self.begin_grader(sandbox, enclosure, &exec_id, command, mode)?;
            return exec.result(keep).await;
        }
        let space = &self.host().space;
        let run = || async {
            let pass = sandbox.gate.pass().await;
            let started = start(&sandbox, &enclosure, &exec_id, &command, &mode, space)?;
            drop(pass);
            match started {
                Started::Known(exec) => exec.result(keep).await,
                Started::New(exec, driver) => {
                    Unstoppable::new(driver.run()).await;
                    exec.result(keep).await
                }
            }
        };
        with_room(&enclosure, run).await
    }

    /// Starts a command and answers when it runs.
    pub(crate) async fn exec_start(
        &self,
        request: v1::ExecStartRequest,
    ) -> Answer<v1::ExecStartResponse> {
        let output = match request.output() {
            v1::OutputPolicy::Unspecified | v1::OutputPolicy::Spill => Policy::Spill,
            v1::OutputPolicy::Block => Policy::Block,
            v1::OutputPolicy::DropOldest => Policy::DropOldest,
        };
        let window = request.output_window_bytes.unwrap_or(DEFAULT_WINDOW);
        let in_bounds = usize::try_from(window).ok().filter(|_| WINDOWS.contains(&window));
        let window = in_bounds.ok_or_else(|| {
            let (least, most) = (WINDOWS.start(), WINDOWS.end());
            invalid(format!("output_window_bytes is {window}: it is from {least} to {most}"))
        })?;
        let v1::ExecStartRequest { sandbox_id, exec_id, command, stdin, control, .. } = request;
        let command = command.unwrap_or_default();
        let (sandbox, enclosure) = self.admit(&sandbox_id, &exec_id, &command).await?;
        let mode = Mode::Start { stdin, control, output, window };
        if command.grader {
            let (exec, started) = self.begin_grader(sandbox, enclosure, &exec_id, command, mode)?;
            return Ok(v1::ExecStartResponse { pid: exec.started().await?, started });
        }
        let space = &self.host().space;
        let begin = || async {
            let pass = sandbox.gate.pass().await;
            let started = start(&sandbox, &enclosure, &exec_id, &command, &mode, space)?;
            drop(pass);
            let (exec, is_new) = match started {
                Started::Known(exec) => (exec, false),
                Started::New(exec, driver) => {
                    tokio::spawn(driver.run());
                    (exec, true)
                }
            };
            let pid = exec.started().await?;
            Ok(v1::ExecStartResponse { pid, started: is_new })
        };
        with_room(&enclosure, begin).await
    }

    /// Streams the output of an exec from the given offsets on; its end is the last item.
    pub(crate) async fn exec_attach(
        &self,
        request: v1::ExecAttachRequest,
    ) -> Answer<Events<v1::ExecAttachResponse>> {
        let (_, exec) = self.exec(&request.sandbox_id, &request.exec_id).await?;
        Ok(Box::pin(Attachment::new(exec, &request)?))
    }

    /// Takes input for an exec. Answers when all of it is taken, so that a program that does not
    /// read slows down whoever writes to it, and nobody else.
    pub(crate) async fn exec_write_stdin(
        &self,
        request: v1::ExecWriteStdinRequest,
    ) -> Answer<v1::ExecWriteStdinResponse> {
        let (_, exec) = self.exec(&request.sandbox_id, &request.exec_id).await?;
        exec.wait(|state| {
            let stdin = if request.control { &mut state.control } else { &mut state.stdin };
            let Some(stdin) = stdin else {
                let name = if request.control { "control" } else { "stdin" };
                let message = format!("the exec has no {name}: start it with {name} = true");
                return Some(Err(invalid(message)));
            };
            let written = stdin.write(request.offset, &request.data, request.eof);
            let offset = stdin.taken();
            state.wake_driver();
            match written {
                Write::Done => Some(Ok(v1::ExecWriteStdinResponse { offset })),
                Write::Full => None,
                Write::Ended => Some(Err(invalid(format!(
                    "stdin was ended after {offset} bytes: nothing can follow"
                )))),
                Write::Gap => Some(Err(invalid(format!(
                    "offset {} is beyond the {offset} bytes of stdin taken so far",
                    request.offset
                )))),
            }
        })
        .await
    }

    /// Signals every process of an exec, or ends it.
    pub(crate) async fn exec_signal(
        &self,
        request: v1::ExecSignalRequest,
    ) -> Answer<v1::ExecSignalResponse> {
        if request.cancel && request.signal != 0 {
            return Err(invalid("give either a signal or cancel, not both"));
        }
        if !request.cancel && !(1..=MAX_SIGNAL).contains(&request.signal) {
            let signal = request.signal;
            return Err(invalid(format!("signal is {signal}: it is from 1 to {MAX_SIGNAL}")));
        }
        let (enclosure, exec) = self.exec(&request.sandbox_id, &request.exec_id).await?;
        let delivered = if request.cancel {
            exec.cancel()
        } else {
            signal(&enclosure, &exec, request.signal.cast_signed())
        };
        Ok(v1::ExecSignalResponse { delivered })
    }

    /// Changes the size of a terminal.
    pub(crate) async fn exec_resize(
        &self,
        request: v1::ExecResizeRequest,
    ) -> Answer<v1::ExecResizeResponse> {
        let size = request.size.unwrap_or_default();
        terminal::check(size)?;
        let (_, exec) = self.exec(&request.sandbox_id, &request.exec_id).await?;
        match &lock(&exec.state).terminal {
            Terminal::None => Err(invalid("the exec has no terminal: start it with a pty")),
            Terminal::Closed => Ok(v1::ExecResizeResponse { resized: false }),
            Terminal::Open(master) => {
                terminal::resize(master, size)?;
                Ok(v1::ExecResizeResponse { resized: true })
            }
        }
    }

    /// The execs of a sandbox, oldest first.
    pub(crate) async fn exec_list(
        &self,
        request: v1::ExecListRequest,
    ) -> Answer<v1::ExecListResponse> {
        let sandbox = self.sandbox(&request.sandbox_id)?;
        let mut all = sandbox.execs().all();
        all.sort_by_key(|exec| (exec.started_unix_ns, exec.number));
        Ok(v1::ExecListResponse { execs: all.iter().map(|exec| exec.summary()).collect() })
    }

    /// Checks all of a request that can be checked, then waits for the sandbox.
    async fn admit(
        &self,
        sandbox_id: &str,
        exec_id: &str,
        command: &v1::Command,
    ) -> Answer<(Arc<Sandbox>, Arc<Enclosure>)> {
        check_id("exec_id", exec_id)?;
        command::check(command)?;
        if command.cpu_time_limit_ns.is_some() {
            self.host().capabilities.require(Feature::CpuTimeLimit)?;
        }
        let sandbox = self.sandbox(sandbox_id)?;
        let enclosure = sandbox.ready().await?;
        Ok((sandbox, enclosure))
    }

    async fn exec(&self, sandbox_id: &str, exec_id: &str) -> Answer<(Arc<Enclosure>, Arc<Exec>)> {
        let sandbox = self.sandbox(sandbox_id)?;
        let enclosure = sandbox.ready().await?;
        sandbox.execs().touch(Instant::now());
        match sandbox.execs().find(exec_id) {
            Find::Known(exec) => Ok((enclosure, exec)),
            Find::Forgotten => Err(forgotten(exec_id)),
            Find::Unknown => {
                let message = format!(
                    "sandbox {sandbox_id:?} has no exec {exec_id:?}: none was started by that id"
                );
                Err(CallError::new(ErrorCode::ExecNotFound, message))
            }
        }
    }
}

/// Sends a signal to every process of a running exec. Returns whether it still ran.
fn signal(enclosure: &Enclosure, exec: &Exec, signal: i32) -> bool {
    let state = lock(&exec.state);
    if state.outcome.is_some() {
        return false;
    }
    match &state.leaf {
        Some(leaf) => leaf.signal(signal).is_ok_and(|reached| reached > 0),
        None => {
            let order = ToInit::SignalAll { exec: exec.number, signal };
            enclosure.init.send(&order.encode(), &[]).is_ok()
        }
    }
}

/// Starts something, again and again for a while when there is no room for a process: the dead may
/// have to be reaped first, and background processes that leave no room have to give way.
async fn with_room<T, F: Future<Output = Answer<T>>>(
    enclosure: &Enclosure,
    attempt: impl Fn() -> F,
) -> Answer<T> {
    let mut result = attempt().await;
    let deadline = Instant::now() + ROOM_PATIENCE;
    while no_room(&result) && Instant::now() < deadline {
        enclosure.make_room().await;
        result = attempt().await;
    }
    result
}

/// Whether a start failed because background processes leave no room for another.
fn no_room<T>(result: &Answer<T>) -> bool {
    result.as_ref().is_err_and(|error| {
        error.code == ErrorCode::ExecFailed && error.reason == "fork" && !error.may_have_run
    })
}

fn invalid(message: impl Into<String>) -> CallError {
    CallError::new(ErrorCode::InvalidArgument, message)
}

/// A future that goes on by itself when whoever waits for it goes away.
struct Unstoppable<F: Future<Output = ()> + Send + 'static>(Option<Pin<Box<F>>>);

impl<F: Future<Output = ()> + Send + 'static> Unstoppable<F> {
    fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F: Future<Output = ()> + Send + 'static> Future for Unstoppable<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.0 else { return Poll::Ready(()) };
        std::task::ready!(future.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(())
    }
}

impl<F: Future<Output = ()> + Send + 'static> Drop for Unstoppable<F> {
    fn drop(&mut self) {
        if let (Some(rest), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn h2_work_goes_on_when_nobody_waits_for_it_any_more() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut work = Box::pin(Unstoppable::new(async {
            tokio::task::yield_now().await;
            let _ = sender.send(7);
        }));
        let first = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        assert!(first.is_pending());
        drop(work);
        assert_eq!(receiver.await, Ok(7));
    }
}
