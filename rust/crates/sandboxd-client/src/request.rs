//! The calls that can be made, each with its message.

use bytes::Bytes;
use sandboxd_proto::{Method, frame, v1};

/// One call, ready to be sent on any connection, more than once if need be.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    SandboxesInfo(v1::SandboxesInfoRequest),
    SandboxesList(v1::SandboxesListRequest),
    SandboxesClaim(v1::SandboxesClaimRequest),
    SandboxesRelease(v1::SandboxesReleaseRequest),
    ExecRun(v1::ExecRunRequest),
    ExecStart(v1::ExecStartRequest),
    ExecAttach(v1::ExecAttachRequest),
    ExecWriteStdin(v1::ExecWriteStdinRequest),
    ExecSignal(v1::ExecSignalRequest),
    ExecList(v1::ExecListRequest),
    FilesRead(v1::FilesReadRequest),
    /// The target, and the whole content: it is sent in pieces, as the agent takes them.
    FilesWrite(v1::FilesWriteTarget, Bytes),
    FilesStat(v1::FilesStatRequest),
    FilesList(v1::FilesListRequest),
    FilesRemove(v1::FilesRemoveRequest),
    FilesMakeDir(v1::FilesMakeDirRequest),
}

impl Request {
    /// Which call this is.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self {
            Self::SandboxesInfo(_) => Method::SandboxesInfo,
            Self::SandboxesList(_) => Method::SandboxesList,
            Self::SandboxesClaim(_) => Method::SandboxesClaim,
            Self::SandboxesRelease(_) => Method::SandboxesRelease,
            Self::ExecRun(_) => Method::ExecRun,
            Self::ExecStart(_) => Method::ExecStart,
            Self::ExecAttach(_) => Method::ExecAttach,
            Self::ExecWriteStdin(_) => Method::ExecWriteStdin,
            Self::ExecSignal(_) => Method::ExecSignal,
            Self::ExecList(_) => Method::ExecList,
            Self::FilesRead(_) => Method::FilesRead,
            Self::FilesWrite(..) => Method::FilesWrite,
            Self::FilesStat(_) => Method::FilesStat,
            Self::FilesList(_) => Method::FilesList,
            Self::FilesRemove(_) => Method::FilesRemove,
            Self::FilesMakeDir(_) => Method::FilesMakeDir,
        }
    }

    /// Whether sending it again, after its answer was lost, has the effect of sending it once:
    /// reads, and calls that carry an id or an offset of the caller.
    #[must_use]
    pub const fn is_repeatable(&self) -> bool {
        match self {
            Self::SandboxesInfo(_)
            | Self::SandboxesList(_)
            | Self::SandboxesClaim(_)
            | Self::SandboxesRelease(_)
            | Self::ExecRun(_)
            | Self::ExecStart(_)
            | Self::ExecAttach(_)
            | Self::ExecWriteStdin(_)
            | Self::ExecList(_)
            | Self::FilesRead(_)
            | Self::FilesStat(_)
            | Self::FilesList(_) => true,
            // A second end of an exec changes nothing; a second signal may.
            Self::ExecSignal(signal) => signal.cancel,
            Self::FilesWrite(..) | Self::FilesRemove(_) | Self::FilesMakeDir(_) => false,
        }
    }

    /// Appends the request frame of call number `call`.
    pub(crate) fn put(&self, out: &mut Vec<u8>, call: u32) {
        let method = self.method();
        match self {
            Self::SandboxesInfo(message) => frame::put_request(out, call, method, message),
            Self::SandboxesList(message) => frame::put_request(out, call, method, message),
            Self::SandboxesClaim(message) => frame::put_request(out, call, method, message),
            Self::SandboxesRelease(message) => frame::put_request(out, call, method, message),
            Self::ExecRun(message) => frame::put_request(out, call, method, message),
            Self::ExecStart(message) => frame::put_request(out, call, method, message),
            Self::ExecAttach(message) => frame::put_request(out, call, method, message),
            Self::ExecWriteStdin(message) => frame::put_request(out, call, method, message),
            Self::ExecSignal(message) => frame::put_request(out, call, method, message),
            Self::ExecList(message) => frame::put_request(out, call, method, message),
            Self::FilesRead(message) => frame::put_request(out, call, method, message),
            Self::FilesWrite(target, _) => {
                let part = Some(v1::files_write_request::Part::Target(target.clone()));
                frame::put_request(out, call, method, &v1::FilesWriteRequest { part });
            }
            Self::FilesStat(message) => frame::put_request(out, call, method, message),
            Self::FilesList(message) => frame::put_request(out, call, method, message),
            Self::FilesRemove(message) => frame::put_request(out, call, method, message),
            Self::FilesMakeDir(message) => frame::put_request(out, call, method, message),
        }
    }
}

/// Whether forgetting a call must be told to the agent: execs are ended, streams stopped. The other
/// calls are short, and half of one is never wanted.
pub(crate) const fn is_cancellable(method: Method) -> bool {
    matches!(method, Method::ExecRun | Method::ExecAttach | Method::FilesRead | Method::FilesWrite)
}

/// Whether the answer is a stream of items.
pub(crate) const fn is_stream(method: Method) -> bool {
    matches!(method, Method::ExecAttach | Method::FilesRead)
}
