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
    ExecResize(v1::ExecResizeRequest),
    FilesRead(v1::FilesReadRequest),
    /// The target, and the content, or the next part of it: it is sent in pieces, as the agent
    /// takes them.
    FilesWrite(v1::FilesWriteTarget, Bytes),
    FilesStat(v1::FilesStatRequest),
    FilesList(v1::FilesListRequest),
    FilesRemove(v1::FilesRemoveRequest),
    FilesMakeDir(v1::FilesMakeDirRequest),
    FilesMove(v1::FilesMoveRequest),
    FilesAbandon(v1::FilesAbandonRequest),
    FilesArchive(v1::FilesArchiveRequest),
    /// As `FilesWrite`: where to, and a whole archive or the next part of one.
    FilesExtract(v1::FilesExtractTarget, Bytes),
    FilesWatch(v1::FilesWatchRequest),
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
            Self::ExecResize(_) => Method::ExecResize,
            Self::FilesRead(_) => Method::FilesRead,
            Self::FilesWrite(..) => Method::FilesWrite,
            Self::FilesStat(_) => Method::FilesStat,
            Self::FilesList(_) => Method::FilesList,
            Self::FilesRemove(_) => Method::FilesRemove,
            Self::FilesMakeDir(_) => Method::FilesMakeDir,
            Self::FilesMove(_) => Method::FilesMove,
            Self::FilesAbandon(_) => Method::FilesAbandon,
            Self::FilesArchive(_) => Method::FilesArchive,
            Self::FilesExtract(..) => Method::FilesExtract,
            Self::FilesWatch(_) => Method::FilesWatch,
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
            | Self::ExecResize(_)
            | Self::FilesRead(_)
            | Self::FilesStat(_)
            | Self::FilesList(_)
            | Self::FilesAbandon(_)
            | Self::FilesArchive(_)
            | Self::FilesWatch(_) => true,
            // A second end of an exec changes nothing; a second signal may.
            Self::ExecSignal(signal) => signal.cancel,
            // The agent knows what it has of an upload, and what became of it.
            Self::FilesWrite(target, _) => !target.upload_id.is_empty(),
            Self::FilesExtract(target, _) => !target.upload_id.is_empty(),
            Self::FilesRemove(_) | Self::FilesMakeDir(_) | Self::FilesMove(_) => false,
        }
    }

    /// What is sent behind the request, in pieces.
    pub(crate) const fn content(&self) -> Option<&Bytes> {
        match self {
            Self::FilesWrite(_, content) | Self::FilesExtract(_, content) => Some(content),
            _ => None,
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
            Self::ExecResize(message) => frame::put_request(out, call, method, message),
            Self::FilesRead(message) => frame::put_request(out, call, method, message),
            Self::FilesWrite(target, _) => {
                let part = Some(v1::files_write_request::Part::Target(target.clone()));
                frame::put_request(out, call, method, &v1::FilesWriteRequest { part });
            }
            Self::FilesStat(message) => frame::put_request(out, call, method, message),
            Self::FilesList(message) => frame::put_request(out, call, method, message),
            Self::FilesRemove(message) => frame::put_request(out, call, method, message),
            Self::FilesMakeDir(message) => frame::put_request(out, call, method, message),
            Self::FilesMove(message) => frame::put_request(out, call, method, message),
            Self::FilesAbandon(message) => frame::put_request(out, call, method, message),
            Self::FilesArchive(message) => frame::put_request(out, call, method, message),
            Self::FilesExtract(target, _) => {
                let part = Some(v1::files_extract_request::Part::Target(target.clone()));
                frame::put_request(out, call, method, &v1::FilesExtractRequest { part });
            }
            Self::FilesWatch(message) => frame::put_request(out, call, method, message),
        }
    }
}

/// Whether forgetting a call must be told to the agent: execs are ended, streams stopped. The other
/// calls are short, and half of one is never wanted.
pub(crate) const fn is_cancellable(method: Method) -> bool {
    is_stream(method)
        || matches!(method, Method::ExecRun | Method::FilesWrite | Method::FilesExtract)
}

/// Whether the answer is a stream of items.
#[must_use]
pub const fn is_stream(method: Method) -> bool {
    matches!(
        method,
        Method::ExecAttach | Method::FilesRead | Method::FilesArchive | Method::FilesWatch
    )
}
