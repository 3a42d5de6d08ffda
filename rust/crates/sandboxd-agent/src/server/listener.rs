//! The Unix socket that an agent listens on, and who may connect to it.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::net::sockopt::{socket_acceptconn, socket_peercred};
use sandboxd_proto::{CallError, ErrorCode};
use tokio::io::unix::AsyncFd;

use crate::call::Answer;
use crate::state::unusable;
use crate::watch;

/// A listening socket, whose path is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: AsyncFd<OwnedFd>,
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens at `path`, where the socket of a dead agent may be in the way.
    ///
    /// # Errors
    ///
    /// `state_unusable`, when the path cannot be used or another agent listens there.
    pub(crate) fn bind(path: &Path) -> Answer<Self> {
        let bound = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if UnixStream::connect(path).is_ok() {
                    let message = format!(
                        "another agent listens at {}: stop it, or choose another --listen",
                        path.display()
                    );
                    return Err(CallError::new(ErrorCode::StateUnusable, message));
                }
                fs::remove_file(path).and_then(|()| UnixListener::bind(path))
            }
            bound => bound,
        };
        let bound = bound.and_then(|listener| {
            fs::set_permissions(path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            watch::readable(listener.into())
        });
        let socket = bound.map_err(|error| unusable(path, &error))?;
        Ok(Self { socket, path: Some(path.to_owned()) })
    }

    /// Takes over a socket that listens already.
    ///
    /// # Errors
    ///
    /// `invalid_argument`, when it is not a listening Unix socket.
    pub(crate) fn inherited(socket: OwnedFd) -> Answer<Self> {
        let wrong = |error: &dyn std::fmt::Display| {
            let message = format!("--listen-fd must be a listening Unix socket: {error}");
            CallError::new(ErrorCode::InvalidArgument, message)
        };
        match socket_acceptconn(&socket) {
            Ok(true) => {}
            Ok(false) => return Err(wrong(&"it does not listen")),
            Err(errno) => return Err(wrong(&errno)),
        }
        let listener = UnixListener::from(socket);
        let address = listener.local_addr().map_err(|error| wrong(&error))?;
        listener.set_nonblocking(true).map_err(|error| wrong(&error))?;
        let socket = watch::readable(listener.into()).map_err(|error| wrong(&error))?;
        Ok(Self { socket, path: address.as_pathname().map(Path::to_owned) })
    }

    /// Where clients connect, unless the socket has no name.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Waits for the next peer that may use this agent. Others are closed unheard.
    ///
    /// # Errors
    ///
    /// When descriptors or memory run out; the peer waits and accepting can be tried again.
    pub(crate) async fn accept(&self) -> io::Result<OwnedFd> {
        loop {
            let mut ready = self.socket.readable().await?;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(self.socket.get_ref(), flags) {
                Ok(peer) if is_trusted(&peer) => return Ok(peer),
                Ok(_) | Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::WOULDBLOCK) => ready.clear_ready(),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether a peer runs as the agent's own user, or as root. The kernel's word, taken when it
/// connected: nothing of the peer is parsed before.
fn is_trusted(peer: &OwnedFd) -> bool {
    match socket_peercred(peer) {
        Ok(credentials) => {
            let trusted =
                credentials.uid == rustix::process::geteuid() || credentials.uid.is_root();
            if !trusted {
                tracing::warn!(uid = credentials.uid.as_raw(), "peer of another user was refused");
            }
            trusted
        }
        Err(errno) => {
            tracing::warn!(%errno, "peer without credentials was refused");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within_a_runtime(test: impl AsyncFnOnce()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test());
    }

    #[test]
    fn the_socket_of_a_dead_agent_is_replaced_and_the_own_one_removed_at_the_end() {
        within_a_runtime(async || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("agent.sock");
            drop(UnixListener::bind(&path).unwrap());
            let listener = Listener::bind(&path).unwrap();
            let client = UnixStream::connect(&path).unwrap();
            listener.accept().await.unwrap();
            drop((client, listener));
            assert!(!path.exists());
        });
    }

    #[test]
    fn the_socket_of_a_living_agent_is_left_alone() {
        within_a_runtime(async || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("agent.sock");
            let _first = Listener::bind(&path).unwrap();
            assert_eq!(Listener::bind(&path).unwrap_err().code, ErrorCode::StateUnusable);
            assert!(path.exists());
        });
    }

    #[test]
    fn an_inherited_socket_serves_those_who_connected_before() {
        within_a_runtime(async || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("agent.sock");
            let bound = UnixListener::bind(&path).unwrap();
            let _early = UnixStream::connect(&path).unwrap();
            let listener = Listener::inherited(bound.into()).unwrap();
            assert_eq!(listener.path(), Some(path.as_path()));
            listener.accept().await.unwrap();
        });
    }

    #[test]
    fn a_peer_of_another_user_is_closed_unheard() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        within_a_runtime(async || {
            let folder = tempfile::tempdir().unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
            let path = folder.path().join("agent.sock");
            let listener = Listener::bind(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
            let stranger = std::thread::spawn({
                let path = path.clone();
                move || {
                    // Of this thread alone.
                    let nobody = rustix::process::Uid::from_raw(65_534);
                    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                    UnixStream::connect(path).unwrap()
                }
            });
            let mut stranger = stranger.join().unwrap();
            let own = UnixStream::connect(&path).unwrap();
            let accepted = UnixStream::from(listener.accept().await.unwrap());
            drop(own);
            let mut ended = [0; 1];
            assert_eq!(std::io::Read::read(&mut stranger, &mut ended).unwrap(), 0);
            drop(accepted);
        });
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        within_a_runtime(async || {
            let (socket, _other) = UnixStream::pair().unwrap();
            let error = Listener::inherited(socket.into()).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument);
        });
    }
}
