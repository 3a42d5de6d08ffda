//! What a connection asks of whoever answers its requests.

use std::pin::Pin;

use bytes::Bytes;
use sandboxd_proto::Method;

use super::window::Incoming;
use crate::call::{Answer, Events};

/// A future whose output is a whole frame.
pub(crate) type Reply = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// Event frames of a server stream; an error is the last item.
pub(crate) type EventFrames = Events<Vec<u8>>;

/// Starts something on behalf of a caller who cancels; the call itself goes on to its reply.
pub(crate) type OnCancel = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A request that was understood.
pub(crate) enum Call {
    Unary { reply: Reply, on_cancel: Option<OnCancel> },
    ServerStream(Pin<Box<dyn Future<Output = Answer<EventFrames>> + Send>>),
    ClientStream(Box<dyn FnOnce(Incoming) -> Reply + Send>),
}

/// What requests are for. The agent, or a double in tests.
pub(crate) trait Handler: Clone + Send + 'static {
    /// Starts a call; its frames are to carry the number `call`.
    fn start(&self, call: u32, method: Method, message: Bytes) -> Answer<Call>;
}
