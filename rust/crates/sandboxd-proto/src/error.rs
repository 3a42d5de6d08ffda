//! Errors as they travel: a stable code, a message for people, and whether the command may
//! have run.
//!
//! A code names a decision of the caller, not the library that failed. Codes are the same on
//! the wire, in Python and in metric labels: they are added, never renamed.

use strum::{EnumIter, EnumString, IntoStaticStr};

use crate::v1;

/// Stable name of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorCode {
    /// The request is wrong; the message names the field and what to change.
    InvalidArgument,
    /// No template has this name.
    UnknownTemplate,
    /// The host cannot give what was asked for; the message says what would provide it.
    Unsupported,
    /// No sandbox has this id.
    SandboxNotFound,
    /// The sandbox was closed by its holder.
    SandboxClosed,
    /// The infrastructure ended the sandbox; nothing in it survives.
    SandboxLost,
    /// The sandbox could not be made.
    LaunchFailed,
    /// The program could not be started, by fault of the request; `reason` names the step.
    ExecFailed,
    /// No exec has this id.
    ExecNotFound,
    /// An exec had this id, and its result is not kept any more.
    ExecExpired,
    /// The id names another command.
    ExecConflict,
    /// Output at this offset is not kept, or was never written; `reason` has the ranges that are.
    OutputRange,
    /// A shell's output has no match for a pattern. Of the SDK alone.
    PatternNotFound,
    /// A bounded table or queue of the agent is full.
    ResourceExhausted,
    FileNotFound,
    FileExists,
    NotADirectory,
    IsADirectory,
    DirectoryNotEmpty,
    NotARegularFile,
    /// The file is another one than the one whose reading was begun.
    FileChanged,
    /// An archive, or a member of it, that is not unpacked; `reason` says why in a word.
    ArchiveRefused,
    PermissionDenied,
    /// The sandbox's disk limit leaves no room.
    DiskFull,
    /// Another failure of a file call; the message has the system's words.
    FileFailed,
    /// No connection could be made, so nothing was sent.
    AgentUnreachable,
    /// The connection broke and could not be repaired: the command may have run.
    ConnectionLost,
    /// The agent's binary is missing.
    AgentMissing,
    /// The control API cannot be reached, or its answer was lost: the claim may have been made.
    ControlUnreachable,
    /// SDK and agent are of different versions.
    VersionMismatch,
    /// The agent's socket belongs to somebody else.
    SocketUntrusted,
    /// The peer may not use this agent.
    Unauthenticated,
    /// A connection was used by a process that was forked from its owner.
    UsedAfterFork,
    /// The state folder cannot be used: full, read-only or of somebody else.
    StateUnusable,
    /// A defect of ours.
    Internal,
}

/// Failure of a call. What a program does, exit codes and limits included, is never one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    pub code: ErrorCode,
    pub message: String,
    /// Whether the command may have run. If not, repeating the call is safe.
    pub may_have_run: bool,
    /// Why a sandbox was lost, or the step at which a start failed.
    pub reason: String,
}

impl CallError {
    /// An error of a call that did nothing.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), may_have_run: false, reason: String::new() }
    }

    /// The same error with its reason (or step) named.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// The same error, of a call that may have had its effect.
    #[must_use]
    pub fn maybe_run(mut self, may_have_run: bool) -> Self {
        self.may_have_run = may_have_run;
        self
    }
}

impl From<&CallError> for v1::Error {
    fn from(error: &CallError) -> Self {
        Self {
            code: <&'static str>::from(error.code).to_owned(),
            message: error.message.clone(),
            may_have_run: error.may_have_run,
            reason: error.reason.clone(),
        }
    }
}

impl From<v1::Error> for CallError {
    fn from(error: v1::Error) -> Self {
        // A newer peer may send a code that is unknown here: the message still says enough.
        let code = error.code.parse().unwrap_or(ErrorCode::Internal);
        Self {
            code,
            message: error.message,
            may_have_run: error.may_have_run,
            reason: error.reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator as _;

    #[test]
    fn every_code_survives_the_wire() {
        for code in ErrorCode::iter() {
            let sent = CallError::new(code, "m").with_reason("r").maybe_run(true);
            assert_eq!(CallError::from(v1::Error::from(&sent)), sent);
        }
    }
}
