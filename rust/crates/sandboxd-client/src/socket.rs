//! A non-blocking Unix stream socket between a [`Connection`] and the agent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use sandboxd_proto::{CallError, ErrorCode};

use crate::connection::Connection;
use crate::error;

/// Bytes read at once; a result of that size costs one more system call than it must.
const CHUNK: usize = 64 * 1024;

/// Chunks taken before others get their turn: the socket stays readable, so nothing is lost.
const CHUNKS_AT_ONCE: usize = 16;

/// Times that a full backlog is tried again, a millisecond apart.
const BACKLOG_TRIES: u32 = 1_000;

/// What a read goes to first. Kept, since clearing it for every read would cost more than the read.
#[derive(Debug)]
pub(crate) struct Scratch(Box<[u8]>);

impl Default for Scratch {
    fn default() -> Self {
        Self(vec![0; CHUNK].into_boxed_slice())
    }
}

#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Connects to an agent that is ours or root's.
    pub(crate) fn connect(path: &Path) -> Result<Self, CallError> {
        let at = |errno: Errno| error::unreachable(format!("{}: {errno}", path.display()));
        let address = SocketAddrUnix::new(path).map_err(at)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket = socket.map_err(at)?;
        let mut tries = 0;
        while let Err(errno) = net::connect(&socket, &address) {
            tries += 1;
            // EAGAIN: the agent has not accepted those before us yet.
            if errno != Errno::AGAIN || tries > BACKLOG_TRIES {
                return Err(at(errno));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let owner = net::sockopt::socket_peercred(&socket).map_err(at)?.uid;
        if !owner.is_root() && owner != rustix::process::geteuid() {
            let message = format!(
                "socket {} is served by user {}: use an agent of your own",
                path.display(),
                owner.as_raw()
            );
            return Err(CallError::new(ErrorCode::SocketUntrusted, message));
        }
        Ok(Self(socket))
    }

    /// Writes what is pending, as far as the socket takes it.
    pub(crate) fn flush(&self, connection: &mut Connection, scratch: &mut Scratch) {
        while !connection.pending().is_empty() {
            match net::send(&self.0, connection.pending(), SendFlags::NOSIGNAL) {
                Ok(count) => connection.written(count),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    // What the agent said before it went still counts.
                    while !connection.is_failed() && self.read(connection, scratch) == CHUNK {}
                    connection.disconnected(errno);
                }
            }
        }
    }

    /// Reads what has arrived, and writes what that led to.
    pub(crate) fn fill(&self, connection: &mut Connection, scratch: &mut Scratch) {
        for _ in 0..CHUNKS_AT_ONCE {
            if connection.is_failed() || self.read(connection, scratch) < CHUNK {
                break;
            }
        }
        self.flush(connection, scratch);
    }

    /// Reads once and returns the number of bytes, 0 for none.
    fn read(&self, connection: &mut Connection, Scratch(chunk): &mut Scratch) -> usize {
        match rustix::io::read(&self.0, &mut chunk[..]) {
            Ok(0) => connection.disconnected("the agent closed it"),
            Ok(count) => {
                connection.receive(&chunk[..count]);
                return count;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => connection.disconnected(errno),
        }
        0
    }

    /// Blocks until there is something to read, or room to write if asked for, or the time is over,
    /// or a signal came.
    pub(crate) fn poll(&self, write: bool, timeout: Duration) -> io::Result<()> {
        let flags = if write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&self.0, flags)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
