//! Reading a regular file, a chunk at a time.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};
use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_stream::Stream;

use super::path::SandboxPath;
use super::tree::{Tree, failure};
use crate::call::Answer;

/// Bytes of one message: with its envelope just below 64 KiB, so that small frames never wait for
/// more than that.
const CHUNK: u64 = 64 * 1024 - 64;

/// Least that is asked of the kernel at once.
const MIN_CHUNK: u64 = 4 * 1024;

/// A file that is being read. Has read nothing ahead.
#[derive(Debug)]
pub(super) struct Reading {
    file: OwnedFd,
    path: SandboxPath,
    offset: u64,
    /// Bytes that are still wanted.
    wanted: u64,
    /// Size when it was opened, as a hint: it may grow and shrink.
    size: u64,
}

impl Reading {
    /// Opens the regular file at `path`, to read up to `length` bytes from `offset` on.
    pub(super) fn open(
        tree: &Tree,
        path: SandboxPath,
        offset: u64,
        length: Option<u64>,
    ) -> Answer<Self> {
        let (file, found) = tree.regular(&path)?;
        let size = found.st_size.try_into().unwrap_or(0);
        Ok(Self { file, path, offset, wanted: length.unwrap_or(u64::MAX), size })
    }

    /// Reads the next bytes; none at the end.
    fn chunk(&mut self) -> Answer<Bytes> {
        // One byte more than there should be shows the end without another call.
        let expected = self.size.saturating_sub(self.offset) + 1;
        let room = expected.clamp(MIN_CHUNK, CHUNK).min(self.wanted);
        // Offsets beyond what the kernel counts with are beyond the end as well.
        if room == 0 || i64::try_from(self.offset.saturating_add(room)).is_err() {
            return Ok(Bytes::new());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(room).unwrap_or(usize::MAX));
        let count = loop {
            match pread(&self.file, spare_capacity(&mut bytes), self.offset) {
                Ok(count) => break count as u64,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failure(&self.path, errno)),
            }
        };
        self.offset += count;
        // Regular files are short at their end only.
        self.wanted = if count < room { 0 } else { self.wanted - count };
        Ok(bytes.into())
    }

    /// The rest as a stream of messages.
    pub(super) fn stream(self) -> Messages {
        Messages(State::Idle(self))
    }
}

/// The messages of a `Read`. Reads when it is polled, on a thread for blocking work that it holds
/// only for one chunk: a reader who is slow, or gone, keeps none.
#[derive(Debug)]
pub(super) struct Messages(State);

#[derive(Debug)]
enum State {
    Idle(Reading),
    Busy(JoinHandle<(Reading, Answer<Bytes>)>),
    Done,
}

impl Stream for Messages {
    type Item = Answer<v1::FilesReadResponse>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut task = match std::mem::replace(&mut self.0, State::Done) {
            State::Done => return Poll::Ready(None),
            State::Idle(reading) if reading.wanted == 0 => return Poll::Ready(None),
            State::Idle(mut reading) => spawn_blocking(move || {
                let chunk = reading.chunk();
                (reading, chunk)
            }),
            State::Busy(task) => task,
        };
        let Poll::Ready(joined) = Pin::new(&mut task).poll(context) else {
            self.0 = State::Busy(task);
            return Poll::Pending;
        };
        match joined {
            Ok((_, Ok(data))) if data.is_empty() => Poll::Ready(None),
            Ok((reading, Ok(data))) => {
                self.0 = State::Idle(reading);
                Poll::Ready(Some(Ok(v1::FilesReadResponse { data })))
            }
            Ok((_, Err(error))) => Poll::Ready(Some(Err(error))),
            Err(error) => {
                let message = format!("reading ended early: {}", io::Error::from(error));
                Poll::Ready(Some(Err(CallError::new(ErrorCode::Internal, message))))
            }
        }
    }
}
