//! What a peer sends, cut into frames.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use sandboxd_proto::frame::{Decoder, Frame, MAX_REQUEST, PREFACE};
use tokio::io::unix::AsyncFd;

use super::ended::{Ended, violation};

/// What is asked of the socket at once: a pipeline of short requests, or a piece of a long one.
const READ_SIZE: usize = 64 * 1024;

/// The reading half.
pub(super) struct Input {
    socket: Arc<AsyncFd<OwnedFd>>,
    pub(super) decoder: Decoder,
    /// Reads go here first, so that the decoder's buffer, which bodies share and keep alive, is
    /// no larger than what arrived.
    scratch: Vec<u8>,
}

impl Input {
    pub(super) fn new(socket: Arc<AsyncFd<OwnedFd>>) -> Self {
        Self { socket, decoder: Decoder::new(MAX_REQUEST), scratch: vec![0; READ_SIZE] }
    }

    /// Waits for bytes and gives them to the decoder.
    pub(super) async fn fill(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.socket.readable().await?;
            let flags = RecvFlags::DONTWAIT;
            let count = match recv(self.socket.get_ref(), &mut self.scratch[..], flags) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((count, _)) => count,
                Err(Errno::WOULDBLOCK) => {
                    ready.clear_ready();
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            // A short read has emptied the socket; the next byte makes it readable again.
            if count < self.scratch.len() {
                ready.clear_ready();
            }
            self.decoder.buffer(count).extend_from_slice(&self.scratch[..count]);
            return Ok(());
        }
    }

    /// Whether the peer has closed its end, whatever of its bytes is still to be read.
    pub(super) fn is_abandoned(&self) -> bool {
        let mut ends = [PollFd::new(self.socket.get_ref(), PollFlags::empty())];
        // A look that fails says nothing: the next read will.
        let looked = poll(&mut ends, Some(&Timespec::default()));
        looked.is_ok() && ends[0].revents().contains(PollFlags::HUP)
    }

    /// Takes the preface off the stream; the listener has looked at it already.
    pub(super) async fn preface(&mut self) -> Result<(), Ended> {
        loop {
            let buffer = self.decoder.buffer(0);
            if let Some(found) = buffer.first_chunk::<4>() {
                let known = found == PREFACE;
                bytes::Buf::advance(buffer, PREFACE.len());
                return if known { Ok(()) } else { Err(violation("unknown preface")) };
            }
            self.fill().await?;
        }
    }

    pub(super) async fn frame(&mut self) -> Result<Frame, Ended> {
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }
}
