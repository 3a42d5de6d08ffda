//! Ways in: one Unix socket that speaks frames to the SDK and gRPC to everyone else.

mod accept;
mod frames;
mod grpc;
mod listener;
mod preface;
mod refuse;
mod whole;

pub(crate) use accept::serve;
pub(crate) use listener::Listener;
pub(crate) use refuse::refuse;
