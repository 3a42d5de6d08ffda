//! The wire: protobuf messages, the lean framing, and the codes of errors.
//!
//! The same messages travel in two envelopes: frames for the SDK, gRPC for everyone else
//! (docs/adr/0001). This crate knows both, and does no I/O.
#![forbid(unsafe_code)]

pub mod error;
pub mod frame;
mod generated;
pub mod method;

pub use error::{CallError, ErrorCode};
pub use generated::v1;
pub use method::Method;
