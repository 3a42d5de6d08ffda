//! How a connection comes to its end.

use std::io;

use sandboxd_proto::frame::FrameError;
use sandboxd_proto::{CallError, ErrorCode};

/// Why a connection is over.
pub(super) enum Ended {
    /// The peer is gone.
    Lost(io::Error),
    /// The peer is told why, then the connection is closed.
    Refused(CallError),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl From<FrameError> for Ended {
    fn from(error: FrameError) -> Self {
        violation(&error.to_string())
    }
}

pub(super) fn violation(what: &str) -> Ended {
    let message = format!("connection breaks the protocol: {what}");
    Ended::Refused(CallError::new(ErrorCode::InvalidArgument, message))
}
