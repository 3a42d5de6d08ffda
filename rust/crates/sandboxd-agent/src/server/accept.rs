//! Accepting connections, and handing each to the protocol it speaks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::grpc::{self, Connections};
use super::preface::{Protocol, look};
use super::{Listener, frames};
use crate::agent::Agent;
use crate::watch;

/// Connections that speak frames, or have not said anything yet. The others wait in the backlog.
/// Peers are this user's own, so this guards against mistakes, not against attacks.
const MAX_CONNECTIONS: usize = 4_096;

/// From connecting to the first four bytes.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause before accepting again when descriptors or memory ran out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Serves everyone who connects. Never ends.
pub(crate) async fn serve(agent: &Agent, listener: &Listener) -> std::convert::Infallible {
    let grpc = grpc::start(agent);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // An error means closed, which it never is.
        let place = Arc::clone(&places).acquire_owned().await;
        match listener.accept().await {
            Ok(peer) => {
                let (agent, grpc) = (agent.clone(), grpc.clone());
                tokio::spawn(async move {
                    if let Err(error) = connection(agent, grpc, peer).await {
                        tracing::debug!(%error, "connection ended");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection now");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

async fn connection(agent: Agent, grpc: Connections, peer: OwnedFd) -> io::Result<()> {
    let socket = watch::readable(peer)?;
    let protocol = tokio::time::timeout(PREFACE_TIMEOUT, look(&socket)).await??;
    // Each protocol watches the socket in its own way.
    let socket = socket.into_inner();
    match protocol {
        Protocol::Frames => frames::serve(agent, socket).await,
        Protocol::Grpc => {
            // The server lives as long as the agent: this fails only when both end.
            let _ = grpc.send(grpc::adopt(socket)).await;
            Ok(())
        }
    }
}
