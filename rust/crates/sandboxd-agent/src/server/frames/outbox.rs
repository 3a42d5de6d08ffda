//! Frames on their way to one peer.
//!
//! A frame is written straight from the task that has it. Only when the socket is full does it
//! queue, and only then is the socket registered for writing: a permanent registration would wake
//! the agent each time the peer reads.
//!
//! Small frames overtake bulk data at frame boundaries, so that an answer or a pong waits for one
//! event at most, whatever else is being streamed. Frames of one call keep their order, because
//! a stream uses the bulk lane alone and every other call sends one frame.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_domain};
use rustix::net::{AddressFamily, SendFlags, Shutdown, send, shutdown};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::lock::lock;
use crate::watch;

/// Replies above this many bytes are bulk data.
const SMALL: usize = 64 * 1024;

/// Queued bytes of the bulk lane above which streams are not pulled and requests are not read.
/// Above one window (256 KiB), so that a single stream is never held up by it.
const HIGH_WATER: usize = 1024 * 1024;

/// What the kernel may hold of a Unix connection, in payload; it takes twice as much for its own use.
const SEND_BUFFER: usize = 256 * 1024;

/// Which frames may overtake which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// The only frame of its call, or of none: overtakes if it is small.
    Single,
    /// One frame of a stream.
    Stream,
}

#[derive(Debug, Default)]
struct Queue {
    /// The frame that the socket took a part of, and how much.
    started: Option<(Vec<u8>, usize)>,
    small: VecDeque<Vec<u8>>,
    bulk: VecDeque<Vec<u8>>,
    bytes: usize,
    /// A writer task runs, and ends when the queue is empty.
    writing: bool,
    broken: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.started.is_none() && self.small.is_empty() && self.bulk.is_empty()
    }

    fn next(&mut self) -> Option<(Vec<u8>, usize)> {
        self.started.take().or_else(|| {
            let fresh = self.small.pop_front().or_else(|| self.bulk.pop_front());
            fresh.map(|frame| (frame, 0))
        })
    }

    fn give_up(&mut self) {
        *self = Self { broken: true, writing: self.writing, ..Self::default() };
    }
}

/// The sending half of a connection. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Outbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    socket: Arc<AsyncFd<OwnedFd>>,
    queue: Mutex<Queue>,
    /// Told whenever the queue fell below the high water mark, or broke.
    room: Notify,
}

impl Outbox {
    pub(super) fn new(socket: Arc<AsyncFd<OwnedFd>>) -> Self {
        // A Unix socket is full before the window of one stream is: then each window would wait for
        // room once, which takes eight system calls. Where more is not allowed, that is all.
        if socket_domain(&socket).is_ok_and(|domain| domain == AddressFamily::UNIX) {
            let _ = set_socket_send_buffer_size(&socket, SEND_BUFFER);
        }
        Self(Arc::new(Shared { socket, queue: Mutex::default(), room: Notify::new() }))
    }

    /// Sends one frame, or several of `Lane::Single`, one after the other. Never waits. After
    /// [`Outbox::close`], or once the peer is gone, it does nothing.
    pub(super) fn send(&self, frame: Vec<u8>, lane: Lane) {
        let mut queue = self.0.lock();
        if queue.broken {
            return;
        }
        let length = frame.len();
        let mut written = 0;
        if queue.is_empty() {
            match self.0.write(&frame) {
                Ok(count) if count == length => return,
                Ok(count) => written = count,
                Err(_) => return self.0.give_up(&mut queue),
            }
        }
        queue.bytes += length - written;
        if queue.is_empty() {
            queue.started = Some((frame, written));
        } else if lane == Lane::Single && length <= SMALL {
            queue.small.push_back(frame);
        } else {
            queue.bulk.push_back(frame);
        }
        if !queue.writing {
            queue.writing = true;
            tokio::spawn(Arc::clone(&self.0).drain());
        }
    }

    /// Waits until little enough is queued, so that memory is bounded whoever fails to read.
    pub(super) async fn room(&self) {
        loop {
            let room = self.0.room.notified();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.0.lock().bytes <= HIGH_WATER
    }

    /// Drops what is queued, and tells the peer that nothing more will come or be read.
    pub(super) fn close(&self) {
        self.0.give_up(&mut self.0.lock());
        let _ = shutdown(self.0.socket.get_ref(), Shutdown::Both);
    }

    /// Waits until everything is with the kernel, then closes.
    pub(super) async fn finish(&self) {
        loop {
            let room = self.0.room.notified();
            if self.0.lock().is_empty() {
                return self.close();
            }
            room.await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Writes as much of `bytes` as the socket takes.
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(self.socket.get_ref(), &bytes[written..], flags) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(written)
    }

    fn give_up(&self, queue: &mut Queue) {
        queue.give_up();
        self.room.notify_waiters();
    }

    /// Writes until the queue is empty or the peer is gone.
    async fn drain(self: Arc<Self>) {
        let result = self.drain_until_empty().await;
        let mut queue = self.lock();
        queue.writing = false;
        if result.is_err() {
            self.give_up(&mut queue);
        }
    }

    async fn drain_until_empty(&self) -> io::Result<()> {
        // A duplicate, because epoll knows the socket already, for reading.
        let socket = watch::writable(self.socket.get_ref().try_clone()?)?;
        loop {
            let mut ready = socket.writable().await?;
            let mut queue = self.lock();
            loop {
                let Some((frame, offset)) = queue.next() else {
                    // `writing` is cleared by `drain` before anything else can run: one thread,
                    // and no await between here and there.
                    self.room.notify_waiters();
                    return Ok(());
                };
                let written = self.write(&frame[offset..])?;
                queue.bytes -= written;
                if offset + written < frame.len() {
                    queue.started = Some((frame, offset + written));
                    ready.clear_ready();
                    break;
                }
            }
            if queue.bytes <= HIGH_WATER {
                self.room.notify_waiters();
            }
        }
    }
}
