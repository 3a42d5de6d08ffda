//! An agent that cannot start tells its clients why.
//!
//! They may be connected already, since the socket can be older than the agent. Without an answer
//! they would only see that it is gone.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use sandboxd_proto::CallError;
use sandboxd_proto::frame::put_error;
use tokio::time::{Instant, timeout, timeout_at};

use super::Listener;
use crate::watch;

/// How long to wait for clients: the one that started the agent connects at once, or has.
const PATIENCE: Duration = Duration::from_secs(1);

/// Answers everyone who connects now with `error`.
pub(crate) async fn refuse(listener: &Listener, error: &CallError) {
    let mut frame = Vec::new();
    put_error(&mut frame, 0, error);
    let until = Instant::now() + PATIENCE;
    while let Ok(Ok(peer)) = timeout_at(until, listener.accept()).await {
        // A peer that does not take its answer loses only its own.
        let _ = timeout(PATIENCE, tell(peer, &frame)).await;
    }
}

/// Sends `frame`, which is short, and waits until the peer is gone: closing a socket with bytes of
/// the peer in it would be an error to the peer.
async fn tell(peer: OwnedFd, frame: &[u8]) -> io::Result<()> {
    send(&peer, frame, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    shutdown(&peer, Shutdown::Write)?;
    let peer = watch::readable(peer)?;
    let mut rest = [0; 4096];
    loop {
        let mut ready = peer.readable().await?;
        match recv(peer.get_ref(), &mut rest[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Ok(()),
            Ok(_) => {}
            Err(Errno::WOULDBLOCK) => ready.clear_ready(),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use prost::Message as _;
    use sandboxd_proto::frame::{Decoder, Kind, MAX_REPLY};
    use sandboxd_proto::{ErrorCode, v1};

    use super::*;

    #[tokio::test]
    async fn a_client_that_has_sent_its_calls_already_learns_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let listener = Listener::bind(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"SBX1 and a claim").unwrap();
        let error = CallError::new(ErrorCode::StateUnusable, "disk is full: free some space");
        let client = tokio::task::spawn_blocking(move || {
            let mut decoder = Decoder::new(MAX_REPLY);
            let mut bytes = Vec::new();
            client.read_to_end(&mut bytes).unwrap();
            decoder.buffer(bytes.len()).extend_from_slice(&bytes);
            decoder.next_frame().unwrap().unwrap()
        });
        refuse(&listener, &error).await;
        let frame = client.await.unwrap();
        assert_eq!((frame.call, frame.kind), (0, Kind::Error));
        assert_eq!(CallError::from(v1::Error::decode(frame.body).unwrap()), error);
    }
}
