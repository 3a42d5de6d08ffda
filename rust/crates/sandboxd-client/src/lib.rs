//! The direct path to an agent, without Python and without a runtime.
//!
//! [`Connection`] is a state machine: bytes in, bytes and outcomes out, time as an argument. [`Link`]
//! drives one over a Unix socket, for a loop that calls it when the socket is ready or for a thread
//! that blocks in [`Link::wait`].
#![forbid(unsafe_code)]

mod connection;
mod error;
mod link;
mod request;
mod socket;

pub use connection::{Connection, Items, MISSED_KEEPALIVES, Options};
pub use link::Link;
pub use request::{Request, is_stream};
pub use sandboxd_proto::{CallError, ErrorCode, Method};
