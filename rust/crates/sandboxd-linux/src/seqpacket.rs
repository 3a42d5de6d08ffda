//! Packets with descriptors over `SOCK_SEQPACKET` Unix sockets.
//!
//! A packet arrives whole or not at all: truncation, of bytes or of descriptors, is an error, and
//! every descriptor that came with it is closed. Received descriptors are close-on-exec from birth.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

/// Descriptors that one packet can carry. The largest order, a launch, needs a socket, a `tasks`
/// file for each of a handful of v1 hierarchies, and a directory.
pub const MAX_DESCRIPTORS: usize = 16;

const SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

/// The descriptors of one packet, in order. Those not taken are closed with it.
#[derive(Debug, Default)]
pub struct Descriptors {
    held: [Option<OwnedFd>; MAX_DESCRIPTORS],
    taken: usize,
    count: usize,
}

impl Descriptors {
    /// The next descriptor, if there is one.
    pub fn take(&mut self) -> Option<OwnedFd> {
        let next = self.held.get_mut(self.taken)?.take();
        self.taken += usize::from(next.is_some());
        next
    }

    /// How many are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count - self.taken
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, descriptor: OwnedFd) {
        if let Some(place) = self.held.get_mut(self.count) {
            *place = Some(descriptor);
            self.count += 1;
        }
    }
}

/// A packet received into a buffer of the caller.
#[derive(Debug)]
pub struct Received {
    /// Bytes of the packet, at the start of the buffer. 0 means that the peer is gone.
    pub length: usize,
    pub descriptors: Descriptors,
}

/// A connected pair, close-on-exec and blocking; [`send`] and [`receive`] do not block anyway
/// unless told to.
///
/// # Errors
///
/// When descriptors or memory run out.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Whether a call may wait for the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Never,
    Forever,
}

/// Sends one packet with descriptors. Never raises SIGPIPE.
///
/// # Errors
///
/// `WouldBlock` when the peer is behind (nothing was sent), `BrokenPipe` when it is gone,
/// `InvalidInput` when there are more than [`MAX_DESCRIPTORS`].
pub fn send(
    socket: impl AsFd,
    packet: &[u8],
    descriptors: &[BorrowedFd<'_>],
    wait: Wait,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let mut flags = SendFlags::NOSIGNAL;
    if wait == Wait::Never {
        flags |= SendFlags::DONTWAIT;
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(packet)], &mut control, flags) {
            // A packet socket sends all or nothing.
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Receives one packet into `buffer`.
///
/// # Errors
///
/// `WouldBlock` when there is none; `InvalidData` when the packet did not fit, in bytes or in
/// descriptors: it is lost then, and its descriptors are closed.
pub fn receive(socket: impl AsFd, buffer: &mut [u8], wait: Wait) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut flags = RecvFlags::CMSG_CLOEXEC;
    if wait == Wait::Never {
        flags |= RecvFlags::DONTWAIT;
    }
    let message = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    let mut descriptors = Descriptors::default();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            received.for_each(|descriptor| descriptors.push(descriptor));
        }
    }
    if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Received { length: message.bytes, descriptors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_and_its_descriptors_arrive_together_and_close_on_exec() {
        let (ours, theirs) = pair().unwrap();
        let sent = [ours.as_fd(), theirs.as_fd(), ours.as_fd()];
        send(&ours, b"order", &sent, Wait::Never).unwrap();

        let mut buffer = [0; 16];
        let mut received = receive(&theirs, &mut buffer, Wait::Never).unwrap();

        assert_eq!(&buffer[..received.length], b"order");
        assert_eq!(received.descriptors.len(), 3);
        let first = received.descriptors.take().unwrap();
        let flags = rustix::io::fcntl_getfd(&first).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn a_packet_longer_than_the_buffer_is_an_error_and_its_descriptor_is_closed() {
        let (ours, theirs) = pair().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        send(&ours, &[7; 32], &[write.as_fd()], Wait::Never).unwrap();
        drop(write);

        let error = receive(&theirs, &mut [0; 16], Wait::Never).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        // At its end: no write end is open any more.
        assert_eq!(rustix::io::read(&read, &mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn an_empty_socket_would_block_and_a_closed_one_is_at_its_end() {
        let (ours, theirs) = pair().unwrap();
        let nothing = receive(&theirs, &mut [0; 16], Wait::Never).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);

        drop(ours);
        assert_eq!(receive(&theirs, &mut [0; 16], Wait::Never).unwrap().length, 0);
        let gone = send(&theirs, b"x", &[], Wait::Never).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn too_many_descriptors_are_refused_before_anything_is_sent() {
        let (ours, theirs) = pair().unwrap();
        let many = [ours.as_fd(); MAX_DESCRIPTORS + 1];
        let error = send(&ours, b"x", &many, Wait::Never).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let nothing = receive(&theirs, &mut [0; 16], Wait::Never).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }
}
