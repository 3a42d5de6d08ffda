//! Which protocol a peer speaks, told by its first four bytes.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use sandboxd_proto::frame::PREFACE;
use tokio::io::unix::AsyncFd;

/// How an HTTP/2 connection begins, and so a gRPC one.
const HTTP2: &[u8; 4] = b"PRI ";

/// A protocol of the agent's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Frames,
    Grpc,
}

/// Looks at the first bytes of a peer, and leaves them where they are.
///
/// # Errors
///
/// `InvalidData`, if they belong to neither protocol; or if the peer goes away.
pub(super) async fn look(socket: &AsyncFd<OwnedFd>) -> io::Result<Protocol> {
    let mut bytes = [0; 4];
    loop {
        let mut ready = socket.readable().await?;
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(socket.get_ref(), &mut bytes[..], flags) {
            Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok((4, _)) if &bytes == PREFACE => return Ok(Protocol::Frames),
            Ok((4, _)) if &bytes == HTTP2 => return Ok(Protocol::Grpc),
            Ok((count, _)) => {
                let seen = &bytes[..count];
                if !PREFACE.starts_with(seen) && !HTTP2.starts_with(seen) {
                    return Err(ErrorKind::InvalidData.into());
                }
                // Peeking never meets the end: it would see these bytes again and again.
                if ready.ready().is_read_closed() {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                // The next byte makes the socket readable anew.
                ready.clear_ready();
            }
            Err(Errno::WOULDBLOCK) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::watch;

    async fn look_at(pieces: &[&[u8]]) -> io::Result<Protocol> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = watch::readable(ours.into()).unwrap();
        let found = {
            let looking = look(&socket);
            tokio::pin!(looking);
            let mut early = None;
            for piece in pieces {
                theirs.write_all(piece).unwrap();
                tokio::select! {
                    biased;
                    found = &mut looking => { early = Some(found); break; }
                    () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
                }
            }
            match early {
                Some(found) => found?,
                None => {
                    drop(theirs);
                    looking.await?
                }
            }
        };
        // Nothing was consumed.
        let mut first = [0; 4];
        UnixStream::from(socket.into_inner()).read_exact(&mut first).unwrap();
        assert!(pieces.concat().starts_with(&first));
        Ok(found)
    }

    #[tokio::test]
    async fn both_protocols_are_known_by_their_first_bytes_however_they_arrive() {
        assert_eq!(look_at(&[b"SBX1 and more"]).await.unwrap(), Protocol::Frames);
        assert_eq!(look_at(&[b"PRI * HTTP/2.0"]).await.unwrap(), Protocol::Grpc);
        assert_eq!(look_at(&[b"S", b"B", b"X1"]).await.unwrap(), Protocol::Frames);
    }

    #[tokio::test]
    async fn everything_else_is_refused_at_its_first_wrong_byte() {
        for bytes in [&b"GET / HTTP/1.1"[..], b"SBX2", b"\x16\x03\x01", b"P0"] {
            let error = look_at(&[bytes]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
        }
        assert_eq!(look_at(&[b"SB"]).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
