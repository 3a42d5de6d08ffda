//! Errors that this side makes: what a broken connection means for a call.
//!
//! "No connection" (nothing ran, repeating is safe) and "connection lost" (it may have run) are
//! different decisions for the caller, so they are different codes.

use sandboxd_proto::{CallError, ErrorCode};

/// Nothing reached the agent.
pub(crate) fn unreachable(detail: impl std::fmt::Display) -> CallError {
    CallError::new(ErrorCode::AgentUnreachable, format!("agent is unreachable: {detail}"))
}

/// The request reached the socket whole, and its answer did not come.
pub(crate) fn lost(detail: impl std::fmt::Display, may_have_run: bool) -> CallError {
    let message = format!("connection to the agent was lost: {detail}");
    CallError::new(ErrorCode::ConnectionLost, message).maybe_run(may_have_run)
}

/// The peer broke the protocol.
pub(crate) fn protocol(detail: impl std::fmt::Display) -> CallError {
    CallError::new(ErrorCode::Internal, format!("agent broke the protocol: {detail}"))
}
