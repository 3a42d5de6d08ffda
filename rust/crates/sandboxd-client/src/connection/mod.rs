//! The state machine of one connection: bytes in, bytes and outcomes out.
//!
//! Invariants: a call has exactly one outcome; a call that is not in the table was forgotten by its
//! maker, and frames for it are dropped; after a failure every call has an outcome and nothing more
//! is sent. Before the agent's greeting no call leaves but claims: bytes of a connection that never
//! came about may be delivered long after it was given up, and a command among them would run
//! although its caller was told that it had not. Memory is bounded by the window of each stream and the limit of each frame.

mod call;
mod keepalive;
mod outbox;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message as _;
use sandboxd_proto::frame::{self, Decoder, Frame, Kind, MAX_REPLY, PREFACE};
use sandboxd_proto::{CallError, ErrorCode, Method, v1};

use self::call::Call;
use self::keepalive::{Keepalive, Verdict};
use self::outbox::Outbox;
use crate::error;
use crate::request::{Request, is_cancellable, is_stream};

pub use self::keepalive::MISSED_KEEPALIVES;

/// How a connection behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Version of this side; the agent's must be of the same minor release.
    pub version: String,
    /// Time between two signs of life while calls wait; after [`MISSED_KEEPALIVES`] of silence the
    /// connection is given up.
    pub keepalive: Duration,
    /// Time that the agent has for its first answer, its start included.
    pub greeting: Duration,
}

/// Items of a stream that have arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Items {
    /// None, since the last time.
    Pending,
    /// In order, at least one.
    Some(Vec<Bytes>),
    /// The stream is over, and the call forgotten.
    End,
}

#[derive(Debug)]
enum Phase {
    /// The agent has not answered yet. What lies before `sent_until` in the outgoing stream may be
    /// sent already: the hello, and claims, so that a sandbox starts while its caller is busy.
    Greeting {
        until: Instant,
        sent_until: u64,
    },
    Open,
    Failed,
}

/// One connection. See the module's text for what always holds.
#[derive(Debug)]
pub struct Connection {
    options: Options,
    phase: Phase,
    decoder: Decoder,
    outbox: Outbox,
    calls: HashMap<u32, Call>,
    /// Calls without an outcome.
    waiting: usize,
    ready: Vec<u32>,
    next: u32,
    keepalive: Keepalive,
    agent_pid: u32,
}

impl Connection {
    /// A connection whose first bytes wait to be sent.
    #[must_use]
    pub fn new(options: Options, now: Instant) -> Self {
        let mut outbox = Outbox::default();
        outbox.buffer().extend_from_slice(PREFACE);
        let hello = v1::Hello { client_version: options.version.clone(), token: String::new() };
        frame::put_message(outbox.buffer(), 0, Kind::Hello, &hello);
        Self {
            phase: Phase::Greeting { until: now + options.greeting, sent_until: outbox.end() },
            decoder: Decoder::new(MAX_REPLY),
            outbox,
            calls: HashMap::new(),
            waiting: 0,
            ready: Vec::new(),
            next: 0,
            keepalive: Keepalive::new(options.keepalive),
            agent_pid: 0,
            options,
        }
    }

    /// Begins a call and returns its number.
    ///
    /// # Errors
    ///
    /// `agent_unreachable` if the connection has failed: nothing is sent.
    pub fn request(&mut self, request: &Request, now: Instant) -> Result<u32, CallError> {
        if matches!(self.phase, Phase::Failed) {
            return Err(error::unreachable("the connection is closed"));
        }
        self.next = self.next.checked_add(1).ok_or_else(|| error::unreachable("out of numbers"))?;
        let number = self.next;
        let begin = self.outbox.end();
        request.put(self.outbox.buffer(), number);
        if let Phase::Greeting { sent_until, .. } = &mut self.phase
            && matches!(request, Request::SandboxesClaim(_))
            && *sent_until == begin
        {
            *sent_until = self.outbox.end();
        }
        let mut call = Call::new(request.method(), self.outbox.end());
        if let Some(content) = request.content() {
            call = call.with_upload(content.clone());
            call.pump(number, &mut self.outbox);
        }
        self.calls.insert(number, call);
        self.waiting += 1;
        self.keepalive.start(now);
        Ok(number)
    }

    /// Forgets a call. An exec is ended by it and a stream stopped; any other call still happens.
    pub fn cancel(&mut self, number: u32) {
        let Some(call) = self.calls.remove(&number) else { return };
        if call.outcome.is_none() {
            self.settled();
            if is_cancellable(call.method) && !matches!(self.phase, Phase::Failed) {
                frame::put_empty(self.outbox.buffer(), number, Kind::Cancel);
            }
        }
    }

    /// Forgets a call, and lets it happen.
    pub fn forget(&mut self, number: u32) {
        if self.calls.remove(&number).is_some_and(|call| call.outcome.is_none()) {
            self.settled();
        }
    }

    /// Takes in bytes from the agent.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.keepalive.heard();
        self.decoder.buffer(bytes.len()).extend_from_slice(bytes);
        while !matches!(self.phase, Phase::Failed) {
            match self.decoder.next_frame() {
                Ok(Some(frame)) => {
                    if let Err(error) = self.take(frame) {
                        self.fail(&error);
                    }
                }
                Ok(None) => return,
                Err(broken) => self.fail(&error::protocol(broken)),
            }
        }
    }

    fn take(&mut self, frame: Frame) -> Result<(), CallError> {
        if let Phase::Greeting { .. } = self.phase {
            return self.greeted(frame);
        }
        let number = frame.call;
        match frame.kind {
            Kind::Reply => self.settle(number, Ok(frame.body)),
            Kind::End => self.settle(number, Ok(Bytes::new())),
            Kind::Error => {
                let error = read_error(frame.body)?;
                if number == 0 {
                    return Err(error);
                }
                self.settle(number, Err(error));
            }
            Kind::Event => self.event(number, frame.body)?,
            Kind::Credit => {
                let bytes = frame::read_credit(&frame.body).map_err(error::protocol)?;
                if let Some(call) = self.calls.get_mut(&number) {
                    call.credit(bytes);
                    call.pump(number, &mut self.outbox);
                }
            }
            Kind::Ping => frame::put_empty(self.outbox.buffer(), number, Kind::Pong),
            Kind::Pong => {}
            Kind::Hello | Kind::Request | Kind::Cancel => {
                return Err(error::protocol(format!("unexpected frame {:?}", frame.kind)));
            }
        }
        Ok(())
    }

    fn greeted(&mut self, frame: Frame) -> Result<(), CallError> {
        match frame.kind {
            Kind::Hello => {
                let welcome = v1::Welcome::decode(frame.body).map_err(error::protocol)?;
                check_version(&self.options.version, &welcome.agent_version)?;
                self.agent_pid = welcome.pid;
                self.phase = Phase::Open;
                Ok(())
            }
            Kind::Error => Err(read_error(frame.body)?),
            other => Err(error::protocol(format!("first frame is {other:?}"))),
        }
    }

    fn event(&mut self, number: u32, body: Bytes) -> Result<(), CallError> {
        let Some(call) = self.calls.get_mut(&number) else { return Ok(()) };
        if !is_stream(call.method) || call.outcome.is_some() {
            return Err(error::protocol("an item outside of a stream"));
        }
        call.items.push_back(body);
        if call.items.len() == 1 {
            self.ready.push(number);
        }
        Ok(())
    }

    fn settle(&mut self, number: u32, outcome: Result<Bytes, CallError>) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        if call.outcome.is_some() {
            return;
        }
        call.outcome = Some(outcome);
        call.upload = None;
        self.ready.push(number);
        self.settled();
    }

    /// One call fewer waits for an outcome.
    fn settled(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.keepalive.stop();
        }
    }

    /// Ends the connection: every call without an outcome gets one that says whether it may have
    /// run. Before the agent's greeting nothing can have run, since nothing was sent.
    pub fn fail(&mut self, cause: &CallError) {
        let greeting = matches!(self.phase, Phase::Greeting { .. });
        if matches!(self.phase, Phase::Failed) {
            return;
        }
        self.phase = Phase::Failed;
        let written = self.outbox.written();
        for (&number, call) in &mut self.calls {
            if call.outcome.is_some() {
                continue;
            }
            let error = if greeting {
                cause.clone().maybe_run(false)
            } else if written < call.request_end {
                error::unreachable(cause)
            } else {
                let lost = error::lost(cause, call.may_have_run(written));
                if cause.code == ErrorCode::Internal {
                    lost.with_reason(cause.reason.clone())
                } else {
                    lost
                }
            };
            call.outcome = Some(Err(error));
            self.ready.push(number);
        }
        self.waiting = 0;
        self.keepalive.stop();
        self.outbox = Outbox::default();
    }

    /// Ends the connection because its byte stream ended.
    pub fn disconnected(&mut self, detail: impl std::fmt::Display) {
        self.fail(&match self.phase {
            Phase::Greeting { .. } => error::unreachable(detail),
            Phase::Open | Phase::Failed => CallError::new(ErrorCode::Internal, detail.to_string()),
        });
    }

    /// Sends a sign of life, or gives the connection up, when it is time to.
    pub fn tick(&mut self, now: Instant) {
        if let Phase::Greeting { until, .. } = self.phase {
            if until <= now {
                let seconds = self.options.greeting.as_secs_f64();
                let error = error::unreachable(format!("no answer within {seconds} s"));
                self.fail(&error.with_reason("silent"));
            }
            return;
        }
        match self.keepalive.tick(now) {
            Verdict::Wait => {}
            Verdict::Ping => frame::put_empty(self.outbox.buffer(), 0, Kind::Ping),
            Verdict::Dead => {
                let silent = CallError::new(ErrorCode::Internal, "the agent fell silent");
                self.fail(&silent.with_reason("silent"));
            }
        }
    }

    /// When [`Self::tick`] is next of use; `None` while nothing waits.
    #[must_use]
    pub fn next_tick(&self) -> Option<Instant> {
        match self.phase {
            Phase::Greeting { until, .. } if self.waiting > 0 => Some(until),
            Phase::Greeting { .. } | Phase::Failed => None,
            Phase::Open => self.keepalive.due(),
        }
    }

    /// Bytes to write.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        let pending = self.outbox.pending();
        match self.phase {
            Phase::Greeting { sent_until, .. } => {
                let open = sent_until.saturating_sub(self.outbox.written());
                &pending[..usize::try_from(open).unwrap_or(usize::MAX).min(pending.len())]
            }
            Phase::Open | Phase::Failed => pending,
        }
    }

    /// Says that `count` of [`Self::pending`] are written.
    pub fn written(&mut self, count: usize) {
        self.outbox.advance(count);
    }

    /// Numbers of the calls that have something new, since the last time.
    pub fn take_ready(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ready)
    }

    /// The reply of a call that ended, which is then forgotten.
    pub fn take_reply(&mut self, number: u32) -> Option<Result<Bytes, CallError>> {
        self.calls.get(&number)?.outcome.as_ref()?;
        self.calls.remove(&number)?.outcome
    }

    /// What has arrived of a stream.
    ///
    /// # Errors
    ///
    /// The error that the stream ended with, once its items are taken.
    pub fn take_items(&mut self, number: u32) -> Result<Items, CallError> {
        let Some(call) = self.calls.get_mut(&number) else { return Ok(Items::End) };
        let mut items = Vec::with_capacity(call.items.len());
        while let Some(item) = call.take_item(number, &mut self.outbox) {
            items.push(item);
        }
        if !items.is_empty() {
            return Ok(Items::Some(items));
        }
        match self.take_reply(number) {
            None => Ok(Items::Pending),
            Some(Ok(_)) => Ok(Items::End),
            Some(Err(error)) => Err(error),
        }
    }

    /// Which call a number stands for, unless it is forgotten.
    #[must_use]
    pub fn method(&self, number: u32) -> Option<Method> {
        self.calls.get(&number).map(|call| call.method)
    }

    /// Whether a call has something to take.
    #[must_use]
    pub fn is_ready(&self, number: u32) -> bool {
        self.calls.get(&number).is_none_or(|call| call.outcome.is_some() || !call.items.is_empty())
    }

    /// Whether the connection is of no use any more.
    #[must_use]
    pub const fn is_failed(&self) -> bool {
        matches!(self.phase, Phase::Failed)
    }

    /// The agent's process, as it says; 0 before its greeting.
    #[must_use]
    pub const fn agent_pid(&self) -> u32 {
        self.agent_pid
    }
}

fn read_error(body: Bytes) -> Result<CallError, CallError> {
    v1::Error::decode(body).map(CallError::from).map_err(error::protocol)
}

/// Releases with the same minor number understand each other.
fn check_version(ours: &str, agent: &str) -> Result<(), CallError> {
    let minor = |version: &str| version.rsplit_once('.').map(|(minor, _)| minor.to_owned());
    if minor(ours).is_some() && minor(ours) == minor(agent) {
        return Ok(());
    }
    let message = format!(
        "agent is version {agent:?} and this is version {ours:?}: \
         install the same minor release of both"
    );
    Err(CallError::new(ErrorCode::VersionMismatch, message))
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
