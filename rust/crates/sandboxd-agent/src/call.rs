//! What a call is, whichever envelope it came in: one async function on messages.
//!
//! `server/frames.rs` and `server/grpc.rs` are two thin adapters over [`crate::agent::Agent`]'s
//! methods. A server stream is pulled by its adapter only when the peer has room for the next
//! item, so a slow reader holds up nobody else.

use std::pin::Pin;

use bytes::Bytes;
use sandboxd_proto::CallError;
use tokio_stream::Stream;

/// Answer of a unary call.
pub(crate) type Answer<T> = Result<T, CallError>;

/// Items of a server stream; an error is the last item.
pub(crate) type Events<T> = Pin<Box<dyn Stream<Item = Answer<T>> + Send>>;

/// Reason of the error that ends a client's stream which the client itself gave up.
pub(crate) const CANCELED: &str = "canceled";

/// Chunks that a client streams to us; an error means that the client went away half-way.
pub(crate) type Chunks = Pin<Box<dyn Stream<Item = Answer<Bytes>> + Send>>;
