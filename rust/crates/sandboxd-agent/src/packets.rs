//! A packet socket to the launcher or to an init, on the event loop.
//!
//! Sending never waits: packets that the peer has no room for are kept, in order, and sent by a
//! task that exists only as long as there are any.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use sandboxd_linux::seqpacket::{self, Received, Wait};
use tokio::io::unix::AsyncFd;

use crate::lock::lock;
use crate::watch;

/// Packets kept for a peer that is behind. Above what one sandbox can have under way: an order for
/// each of its 1,024 execs, and a signal for each.
const MAX_BACKLOG: usize = 4_096;

/// Our end of the socket.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: AsyncFd<OwnedFd>,
    backlog: Mutex<VecDeque<(Vec<u8>, Vec<OwnedFd>)>>,
}

impl PacketSocket {
    /// Takes our end of a pair. Needs a runtime around it.
    ///
    /// # Errors
    ///
    /// When descriptors run out.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Arc<Self>> {
        let socket = watch::readable(socket)?;
        Ok(Arc::new(Self { socket, backlog: Mutex::default() }))
    }

    /// Sends a packet, now or as soon as the peer has room.
    ///
    /// # Errors
    ///
    /// If the peer is gone, or too far behind. Nothing is sent then.
    pub(crate) fn send(
        self: &Arc<Self>,
        packet: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut backlog = lock(&self.backlog);
        if backlog.is_empty() {
            match seqpacket::send(self.socket.get_ref(), packet, descriptors, Wait::Never) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
        if backlog.len() >= MAX_BACKLOG {
            return Err(ErrorKind::WouldBlock.into());
        }
        let duplicates: io::Result<Vec<OwnedFd>> =
            descriptors.iter().map(BorrowedFd::try_clone_to_owned).collect();
        backlog.push_back((packet.to_vec(), duplicates?));
        if backlog.len() == 1 {
            // A second registration, for writing: the first one never wakes for room.
            let writer = watch::writable(self.socket.get_ref().try_clone()?)?;
            tokio::spawn(Arc::clone(self).flush(writer));
        }
        Ok(())
    }

    async fn flush(self: Arc<Self>, writer: AsyncFd<OwnedFd>) {
        loop {
            let Ok(mut ready) = writer.writable().await else { return };
            let mut backlog = lock(&self.backlog);
            while let Some((packet, descriptors)) = backlog.front() {
                let borrowed: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
                match seqpacket::send(writer.get_ref(), packet, &borrowed, Wait::Never) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        ready.clear_ready();
                        break;
                    }
                    // Of a peer that is gone, the reading side learns and tells.
                    Ok(()) | Err(_) => drop(backlog.pop_front()),
                }
            }
            if backlog.is_empty() {
                return;
            }
        }
    }

    /// Waits for the next packet. A length of 0 means that the peer is gone.
    ///
    /// # Errors
    ///
    /// If the packet does not fit, or the socket fails.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        loop {
            let mut ready = self.socket.readable().await?;
            match seqpacket::receive(self.socket.get_ref(), buffer, Wait::Never) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                other => return other,
            }
        }
    }

    /// The next packet if it is here, without waiting.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`], and `WouldBlock` if there is none.
    pub(crate) fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Received> {
        seqpacket::receive(self.socket.get_ref(), buffer, Wait::Never)
    }

    /// Whether the peer has closed its end, with or without words that were not received yet.
    pub(crate) fn is_closed(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut end = [PollFd::new(self.socket.get_ref(), PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut end, Some(&now)).is_ok() && end[0].revents().intersects(closed)
    }

    /// Makes the peer see the end, whoever else holds this socket.
    pub(crate) fn shut_down(&self) {
        let _ = rustix::net::shutdown(self.socket.get_ref(), rustix::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_is_behind_gets_every_packet_in_order_with_its_descriptors() {
        let (ours, theirs) = seqpacket::pair().unwrap();
        let sender = PacketSocket::new(ours).unwrap();
        let (null, _other) = seqpacket::pair().unwrap();
        for number in 0..1_000_u32 {
            sender.send(&[number.to_le_bytes(); 500].concat(), &[null.as_fd()]).unwrap();
        }
        assert!(!lock(&sender.backlog).is_empty());
        let receiver = PacketSocket::new(theirs).unwrap();
        let mut buffer = [0; 4_096];
        for number in 0..1_000_u32 {
            let received = receiver.receive(&mut buffer).await.unwrap();
            assert_eq!(received.descriptors.len(), 1);
            assert_eq!(buffer[..4], number.to_le_bytes());
        }
        assert!(!receiver.is_closed());
        drop(sender);
        assert!(receiver.is_closed());
        assert_eq!(receiver.receive(&mut buffer).await.unwrap().length, 0);
    }

    #[tokio::test]
    async fn a_peer_that_never_reads_is_refused_more_than_a_bounded_backlog() {
        let (ours, _theirs) = seqpacket::pair().unwrap();
        let sender = PacketSocket::new(ours).unwrap();
        let sent = (0..2 * MAX_BACKLOG).take_while(|_| sender.send(&[0; 900], &[]).is_ok());
        assert!(sent.count() < 2 * MAX_BACKLOG);
    }
}
