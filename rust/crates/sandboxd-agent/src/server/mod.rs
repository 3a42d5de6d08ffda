//! Ways in: one Unix socket that speaks frames to the SDK and gRPC to everyone else.

mod frames;
mod listener;
mod preface;

pub(crate) use listener::Listener;
