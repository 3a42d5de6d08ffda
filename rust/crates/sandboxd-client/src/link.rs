//! A connection over a Unix socket, for either driver.
//!
//! A loop calls [`Link::on_readable`], [`Link::on_writable`] and [`Link::on_tick`] when it is time
//! to; a thread without a loop calls [`Link::wait`]. Both then take what is ready. The lock is held
//! for the time of some system calls that do not block, never while waiting.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sandboxd_proto::{CallError, Method};

use crate::connection::{Connection, Items, Options};
use crate::request::Request;
use crate::socket::{Scratch, Socket};

/// See the module's text.
#[derive(Debug)]
pub struct Link {
    socket: Socket,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connection: Connection,
    scratch: Scratch,
}

impl State {
    fn flush(&mut self, socket: &Socket) {
        socket.flush(&mut self.connection, &mut self.scratch);
    }

    fn fill(&mut self, socket: &Socket) {
        socket.fill(&mut self.connection, &mut self.scratch);
    }
}

impl Link {
    /// Connects to the agent at `path`. Its greeting is not waited for.
    ///
    /// # Errors
    ///
    /// `agent_unreachable`, and `socket_untrusted` when the agent is of another user.
    pub fn open(path: &Path, options: Options) -> Result<Self, CallError> {
        let socket = Socket::connect(path)?;
        let connection = Connection::new(options, Instant::now());
        Ok(Self { socket, state: Mutex::new(State { connection, scratch: Scratch::default() }) })
    }

    /// The socket, to be watched by a loop.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held is a defect that was reported; the state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call, and writes it at once as far as the socket takes it.
    ///
    /// # Errors
    ///
    /// `agent_unreachable` if the connection has failed before.
    pub fn submit(&self, request: &Request) -> Result<u32, CallError> {
        let mut state = self.lock();
        let number = state.connection.request(request, Instant::now())?;
        state.flush(&self.socket);
        Ok(number)
    }

    /// As [`Connection::cancel`], written at once.
    pub fn cancel(&self, number: u32) {
        let mut state = self.lock();
        state.connection.cancel(number);
        state.flush(&self.socket);
    }

    /// As [`Connection::forget`].
    pub fn forget(&self, number: u32) {
        self.lock().connection.forget(number);
    }

    /// Reads what has arrived.
    pub fn on_readable(&self) {
        self.lock().fill(&self.socket);
    }

    /// Writes what waits to be written.
    pub fn on_writable(&self) {
        self.lock().flush(&self.socket);
    }

    /// Keepalive; what has arrived meanwhile counts first.
    pub fn on_tick(&self) {
        let mut state = self.lock();
        state.fill(&self.socket);
        state.connection.tick(Instant::now());
        state.flush(&self.socket);
    }

    /// Ends the connection. Calls that wait get their error.
    pub fn close(&self) {
        self.lock().connection.disconnected("it was closed on this side");
    }

    /// Blocks until `number` has something to take, a signal came or `slice` is over, whichever is
    /// first; returns whether it has.
    ///
    /// # Errors
    ///
    /// If the socket cannot be polled.
    pub fn wait(&self, number: u32, slice: Duration) -> std::io::Result<bool> {
        let (write, due) = {
            let mut state = self.lock();
            state.fill(&self.socket);
            // This driver asks for calls by number; the list is for the other one.
            drop(state.connection.take_ready());
            if state.connection.is_ready(number) {
                return Ok(true);
            }
            (!state.connection.pending().is_empty(), state.connection.next_tick())
        };
        let until_tick = due.map(|due| due.saturating_duration_since(Instant::now()));
        self.socket.poll(write, until_tick.map_or(slice, |time| time.min(slice)))?;
        self.on_tick();
        Ok(self.lock().connection.is_ready(number))
    }

    /// As [`Connection::take_ready`].
    #[must_use]
    pub fn take_ready(&self) -> Vec<u32> {
        self.lock().connection.take_ready()
    }

    /// As [`Connection::take_reply`].
    pub fn take_reply(&self, number: u32) -> Option<Result<Bytes, CallError>> {
        self.lock().connection.take_reply(number)
    }

    /// As [`Connection::take_items`]; what that grants the agent is written at once.
    ///
    /// # Errors
    ///
    /// The error that the stream ended with.
    pub fn take_items(&self, number: u32) -> Result<Items, CallError> {
        let mut state = self.lock();
        let items = state.connection.take_items(number);
        state.flush(&self.socket);
        items
    }

    /// As [`Connection::method`].
    #[must_use]
    pub fn method(&self, number: u32) -> Option<Method> {
        self.lock().connection.method(number)
    }

    /// Whether bytes wait for room in the socket.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        !self.lock().connection.pending().is_empty()
    }

    /// As [`Connection::next_tick`].
    #[must_use]
    pub fn next_tick(&self) -> Option<Instant> {
        self.lock().connection.next_tick()
    }

    /// As [`Connection::is_failed`].
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.lock().connection.is_failed()
    }

    /// As [`Connection::agent_pid`].
    #[must_use]
    pub fn agent_pid(&self) -> u32 {
        self.lock().connection.agent_pid()
    }
}
