//! gRPC over the same messages, for everyone but the SDK: the same calls, through tonic.
//!
//! grpcio names the socket's path as the authority of its requests, with `%2F` in it, which the
//! HTTP/2 library here refuses as malformed: such clients set `grpc.default_authority`, to anything.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;

use bytes::Bytes;
use prost::Message as _;
use sandboxd_proto::frame::{MAX_REPLY, MAX_REQUEST};
use sandboxd_proto::v1::exec_server::{Exec, ExecServer};
use sandboxd_proto::v1::files_server::{Files, FilesServer};
use sandboxd_proto::v1::sandboxes_server::{Sandboxes, SandboxesServer};
use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};

use super::whole::Whole;
use crate::agent::Agent;
use crate::call::{Answer, Chunks, Events};

/// Connections that were accepted and wait for the server: it takes them at once.
const WAITING: usize = 16;

/// Streams of one connection. Clients and servers have 100 by default, which 300 programs that are
/// attached to at once would meet.
const MAX_STREAMS: u32 = 4_096;

/// Where to hand over connections that speak gRPC.
pub(super) type Connections = mpsc::Sender<io::Result<UnixStream>>;

/// Starts the server. It ends when every sender is dropped.
pub(super) fn start(agent: &Agent) -> Connections {
    let (sender, receiver) = mpsc::channel(WAITING);
    let service = Service(agent.clone());
    let router = Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .add_service(
            SandboxesServer::new(service.clone())
                .max_decoding_message_size(MAX_REQUEST)
                .max_encoding_message_size(MAX_REPLY),
        )
        .add_service(
            ExecServer::new(service.clone())
                .max_decoding_message_size(MAX_REQUEST)
                .max_encoding_message_size(MAX_REPLY),
        )
        .add_service(Whole(
            FilesServer::new(service)
                .max_decoding_message_size(MAX_REQUEST)
                .max_encoding_message_size(MAX_REPLY),
        ));
    tokio::spawn(async move {
        let served = router.serve_with_incoming(ReceiverStream::new(receiver)).await;
        if let Err(error) = served {
            tracing::error!(%error, "the gRPC server ended");
        }
    });
    sender
}

/// Makes a connection fit for the server.
///
/// # Errors
///
/// If the runtime cannot watch it.
pub(super) fn adopt(socket: OwnedFd) -> io::Result<UnixStream> {
    UnixStream::from_std(StdUnixStream::from(socket))
}

#[derive(Debug, Clone)]
struct Service(Agent);

type Reply<T> = Result<Response<T>, Status>;
type ReplyStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn reply<T>(answer: Answer<T>) -> Reply<T> {
    answer.map(Response::new).map_err(|error| status(&error))
}

fn stream<T: 'static>(answer: Answer<Events<T>>) -> Reply<ReplyStream<T>> {
    reply(answer.map(|events| {
        Box::pin(events.map(|event| event.map_err(|error| status(&error)))) as ReplyStream<T>
    }))
}

/// The status of an error: the nearest of gRPC's codes, and the `Error` message as details, which
/// has the code that counts.
fn status(error: &CallError) -> Status {
    let details = v1::Error::from(error).encode_to_vec();
    Status::with_details(code(error.code), error.message.clone(), Bytes::from(details))
}

const fn code(code: ErrorCode) -> Code {
    match code {
        ErrorCode::InvalidArgument | ErrorCode::ArchiveRefused => Code::InvalidArgument,
        ErrorCode::UnknownTemplate
        | ErrorCode::SandboxNotFound
        | ErrorCode::ExecNotFound
        | ErrorCode::ExecExpired
        | ErrorCode::PatternNotFound
        | ErrorCode::FileNotFound => Code::NotFound,
        ErrorCode::FileExists | ErrorCode::ExecConflict => Code::AlreadyExists,
        ErrorCode::Unsupported => Code::Unimplemented,
        ErrorCode::SandboxClosed
        | ErrorCode::ExecFailed
        | ErrorCode::NotADirectory
        | ErrorCode::IsADirectory
        | ErrorCode::DirectoryNotEmpty
        | ErrorCode::NotARegularFile
        | ErrorCode::FileChanged
        | ErrorCode::VersionMismatch
        | ErrorCode::StateUnusable
        | ErrorCode::UsedAfterFork => Code::FailedPrecondition,
        ErrorCode::OutputRange => Code::OutOfRange,
        ErrorCode::ResourceExhausted | ErrorCode::DiskFull => Code::ResourceExhausted,
        ErrorCode::PermissionDenied | ErrorCode::SocketUntrusted => Code::PermissionDenied,
        ErrorCode::Unauthenticated => Code::Unauthenticated,
        // Never `Unavailable` where the command may have run: clients repeat such calls unasked.
        ErrorCode::SandboxLost | ErrorCode::ConnectionLost => Code::Aborted,
        ErrorCode::AgentUnreachable | ErrorCode::ControlUnreachable => Code::Unavailable,
        ErrorCode::LaunchFailed
        | ErrorCode::FileFailed
        | ErrorCode::AgentMissing
        | ErrorCode::Internal => Code::Internal,
    }
}

#[tonic::async_trait]
impl Sandboxes for Service {
    async fn info(
        &self,
        request: Request<v1::SandboxesInfoRequest>,
    ) -> Reply<v1::SandboxesInfoResponse> {
        reply(self.0.sandboxes_info(request.into_inner()).await)
    }

    async fn list(
        &self,
        request: Request<v1::SandboxesListRequest>,
    ) -> Reply<v1::SandboxesListResponse> {
        reply(self.0.sandboxes_list(request.into_inner()).await)
    }

    async fn claim(
        &self,
        request: Request<v1::SandboxesClaimRequest>,
    ) -> Reply<v1::SandboxesClaimResponse> {
        reply(self.0.sandboxes_claim(request.into_inner()).await)
    }

    async fn warm(
        &self,
        request: Request<v1::SandboxesWarmRequest>,
    ) -> Reply<v1::SandboxesWarmResponse> {
        reply(self.0.sandboxes_warm(request.into_inner()).await)
    }

    async fn release(
        &self,
        request: Request<v1::SandboxesReleaseRequest>,
    ) -> Reply<v1::SandboxesReleaseResponse> {
        reply(self.0.sandboxes_release(request.into_inner()).await)
    }
}

#[tonic::async_trait]
impl Exec for Service {
    // A gRPC client that gives up cannot be told from a connection that was lost, so neither ends
    // the exec: `Signal` with `cancel` does.
    async fn run(&self, request: Request<v1::ExecRunRequest>) -> Reply<v1::ExecRunResponse> {
        reply(self.0.exec_run(request.into_inner()).await)
    }

    async fn start(&self, request: Request<v1::ExecStartRequest>) -> Reply<v1::ExecStartResponse> {
        reply(self.0.exec_start(request.into_inner()).await)
    }

    type AttachStream = ReplyStream<v1::ExecAttachResponse>;

    async fn attach(&self, request: Request<v1::ExecAttachRequest>) -> Reply<Self::AttachStream> {
        stream(self.0.exec_attach(request.into_inner()).await)
    }

    async fn write_stdin(
        &self,
        request: Request<v1::ExecWriteStdinRequest>,
    ) -> Reply<v1::ExecWriteStdinResponse> {
        reply(self.0.exec_write_stdin(request.into_inner()).await)
    }

    async fn signal(
        &self,
        request: Request<v1::ExecSignalRequest>,
    ) -> Reply<v1::ExecSignalResponse> {
        reply(self.0.exec_signal(request.into_inner()).await)
    }

    async fn resize(
        &self,
        request: Request<v1::ExecResizeRequest>,
    ) -> Reply<v1::ExecResizeResponse> {
        reply(self.0.exec_resize(request.into_inner()).await)
    }

    async fn list(&self, request: Request<v1::ExecListRequest>) -> Reply<v1::ExecListResponse> {
        reply(self.0.exec_list(request.into_inner()).await)
    }
}

#[tonic::async_trait]
impl Files for Service {
    type ReadStream = ReplyStream<v1::FilesReadResponse>;

    async fn read(&self, request: Request<v1::FilesReadRequest>) -> Reply<Self::ReadStream> {
        stream(self.0.files_read(request.into_inner()).await)
    }

    async fn write(
        &self,
        request: Request<Streaming<v1::FilesWriteRequest>>,
    ) -> Reply<v1::FilesWriteResponse> {
        let mut messages = request.into_inner();
        let first = messages.message().await?.and_then(|first| first.part);
        let Some(v1::files_write_request::Part::Target(target)) = first else {
            let message = "the first message of an upload must name its target";
            return reply(Err(CallError::new(ErrorCode::InvalidArgument, message)));
        };
        let chunks = chunks(messages, |message| match message.part {
            Some(v1::files_write_request::Part::Data(data)) => Some(data),
            _ => None,
        });
        reply(self.0.files_write(target, chunks).await)
    }

    async fn stat(&self, request: Request<v1::FilesStatRequest>) -> Reply<v1::FilesStatResponse> {
        reply(self.0.files_stat(request.into_inner()).await)
    }

    async fn list(&self, request: Request<v1::FilesListRequest>) -> Reply<v1::FilesListResponse> {
        reply(self.0.files_list(request.into_inner()).await)
    }

    async fn remove(
        &self,
        request: Request<v1::FilesRemoveRequest>,
    ) -> Reply<v1::FilesRemoveResponse> {
        reply(self.0.files_remove(request.into_inner()).await)
    }

    async fn make_dir(
        &self,
        request: Request<v1::FilesMakeDirRequest>,
    ) -> Reply<v1::FilesMakeDirResponse> {
        reply(self.0.files_make_dir(request.into_inner()).await)
    }

    async fn r#move(&self, request: Request<v1::FilesMoveRequest>) -> Reply<v1::FilesMoveResponse> {
        reply(self.0.files_move(request.into_inner()).await)
    }

    async fn abandon(
        &self,
        request: Request<v1::FilesAbandonRequest>,
    ) -> Reply<v1::FilesAbandonResponse> {
        reply(self.0.files_abandon(request.into_inner()).await)
    }

    type ArchiveStream = ReplyStream<v1::FilesArchiveResponse>;

    async fn archive(
        &self,
        request: Request<v1::FilesArchiveRequest>,
    ) -> Reply<Self::ArchiveStream> {
        stream(self.0.files_archive(request.into_inner()).await)
    }

    async fn extract(
        &self,
        request: Request<Streaming<v1::FilesExtractRequest>>,
    ) -> Reply<v1::FilesExtractResponse> {
        let mut messages = request.into_inner();
        let first = messages.message().await?.and_then(|first| first.part);
        let Some(v1::files_extract_request::Part::Target(target)) = first else {
            let message = "the first message of an upload must name its target";
            return reply(Err(CallError::new(ErrorCode::InvalidArgument, message)));
        };
        let chunks = chunks(messages, |message| match message.part {
            Some(v1::files_extract_request::Part::Data(data)) => Some(data),
            _ => None,
        });
        reply(self.0.files_extract(target, chunks).await)
    }

    type WatchStream = ReplyStream<v1::FilesWatchResponse>;

    async fn watch(&self, request: Request<v1::FilesWatchRequest>) -> Reply<Self::WatchStream> {
        stream(self.0.files_watch(request.into_inner()).await)
    }
}

fn chunks<M: Send + 'static>(messages: Streaming<M>, data: fn(M) -> Option<Bytes>) -> Chunks {
    Box::pin(messages.map(move |message| match message.map(data) {
        Ok(Some(data)) => Ok(data),
        Ok(None) => {
            let message = "messages of an upload after the first must carry data";
            Err(CallError::new(ErrorCode::InvalidArgument, message))
        }
        // Half an upload that just ended would look like a whole one.
        Err(status) => {
            let message = format!("connection was lost during the upload: {}", status.message());
            Err(CallError::new(ErrorCode::ConnectionLost, message))
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_carries_the_whole_error() {
        let error =
            CallError::new(ErrorCode::SandboxLost, "gone").with_reason("init_died").maybe_run(true);
        let status = status(&error);
        assert_eq!(status.code(), Code::Aborted);
        let details = v1::Error::decode(status.details()).unwrap();
        assert_eq!(CallError::from(details), error);
    }
}
