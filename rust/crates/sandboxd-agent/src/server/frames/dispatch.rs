//! Which of the agent's calls a request is for.

use bytes::Bytes;
use prost::Message;
use sandboxd_proto::frame::{Kind, put_error, put_message};
use sandboxd_proto::{CallError, ErrorCode, Method, v1};
use tokio_stream::StreamExt as _;

use super::handler::{Call, EventFrames, Handler, OnCancel};
use super::window::Incoming;
use crate::agent::Agent;
use crate::call::{Answer, Chunks, Events};

/// A unary call: `$agent.$method(message)`.
macro_rules! unary {
    ($agent:ident.$method:ident, $call:ident, $message:ident) => {{
        let request = decode($message)?;
        let reply = Box::pin(async move { reply($call, &$agent.$method(request).await) });
        Ok(Call::Unary { reply, on_cancel: None })
    }};
}

/// A server stream: `$agent.$method(message)`.
macro_rules! stream {
    ($agent:ident.$method:ident, $call:ident, $message:ident) => {{
        let request = decode($message)?;
        Ok(Call::ServerStream(Box::pin(async move {
            $agent.$method(request).await.map(|events| frames($call, events))
        })))
    }};
}

impl Handler for Agent {
    fn start(&self, call: u32, method: Method, message: Bytes) -> Answer<Call> {
        let agent = self.clone();
        match method {
            Method::SandboxesInfo => unary!(agent.sandboxes_info, call, message),
            Method::SandboxesList => unary!(agent.sandboxes_list, call, message),
            Method::SandboxesClaim => unary!(agent.sandboxes_claim, call, message),
            Method::SandboxesWarm => unary!(agent.sandboxes_warm, call, message),
            Method::SandboxesRelease => unary!(agent.sandboxes_release, call, message),
            Method::ExecRun => run(agent, call, message),
            Method::ExecStart => unary!(agent.exec_start, call, message),
            Method::ExecAttach => stream!(agent.exec_attach, call, message),
            Method::ExecWriteStdin => unary!(agent.exec_write_stdin, call, message),
            Method::ExecSignal => unary!(agent.exec_signal, call, message),
            Method::ExecList => unary!(agent.exec_list, call, message),
            Method::ExecResize => unary!(agent.exec_resize, call, message),
            Method::FilesRead => stream!(agent.files_read, call, message),
            Method::FilesWrite => write(agent, call, message),
            Method::FilesStat => unary!(agent.files_stat, call, message),
            Method::FilesList => unary!(agent.files_list, call, message),
            Method::FilesRemove => unary!(agent.files_remove, call, message),
            Method::FilesMakeDir => unary!(agent.files_make_dir, call, message),
            Method::FilesMove => unary!(agent.files_move, call, message),
            Method::FilesAbandon => unary!(agent.files_abandon, call, message),
            Method::FilesArchive => stream!(agent.files_archive, call, message),
            Method::FilesExtract => extract(agent, call, message),
            Method::FilesWatch => stream!(agent.files_watch, call, message),
        }
    }
}

/// `Run`, whose caller may give up: then the exec is ended.
fn run(agent: Agent, call: u32, message: Bytes) -> Answer<Call> {
    let request: v1::ExecRunRequest = decode(message)?;
    let (sandbox_id, exec_id) = (request.sandbox_id.clone(), request.exec_id.clone());
    let canceler = agent.clone();
    let on_cancel: OnCancel = Box::new(move || {
        Box::pin(async move {
            let cancel = v1::ExecSignalRequest { sandbox_id, exec_id, signal: 0, cancel: true };
            // Nothing to cancel is no failure: the call's own answer says what became of it.
            let _ = canceler.exec_signal(cancel).await;
        })
    });
    let reply = Box::pin(async move { reply(call, &agent.exec_run(request).await) });
    Ok(Call::Unary { reply, on_cancel: Some(on_cancel) })
}

/// `Write`: the request is the first message, the events are the others.
fn write(agent: Agent, call: u32, message: Bytes) -> Answer<Call> {
    let request: v1::FilesWriteRequest = decode(message)?;
    let Some(v1::files_write_request::Part::Target(target)) = request.part else {
        let message = "the first message of an upload must name its target";
        return Err(CallError::new(ErrorCode::InvalidArgument, message));
    };
    Ok(Call::ClientStream(Box::new(move |events| {
        Box::pin(async move { reply(call, &agent.files_write(target, chunks(events)).await) })
    })))
}

/// `Extract`, as `Write`.
fn extract(agent: Agent, call: u32, message: Bytes) -> Answer<Call> {
    let request: v1::FilesExtractRequest = decode(message)?;
    let Some(v1::files_extract_request::Part::Target(target)) = request.part else {
        let message = "the first message of an upload must name its target";
        return Err(CallError::new(ErrorCode::InvalidArgument, message));
    };
    Ok(Call::ClientStream(Box::new(move |events| {
        Box::pin(async move { reply(call, &agent.files_extract(target, chunks(events)).await) })
    })))
}

/// The data of either call: both have it in the same field.
fn chunks(events: Incoming) -> Chunks {
    Box::pin(events.map(|event| {
        let request: v1::FilesWriteRequest = decode(event?)?;
        match request.part {
            Some(v1::files_write_request::Part::Data(data)) => Ok(data),
            _ => {
                let message = "messages of an upload after the first must carry data";
                Err(CallError::new(ErrorCode::InvalidArgument, message))
            }
        }
    }))
}

fn decode<M: Message + Default>(message: Bytes) -> Answer<M> {
    M::decode(message).map_err(|error| {
        let message = format!("request cannot be decoded: {error}");
        CallError::new(ErrorCode::InvalidArgument, message)
    })
}

fn reply(call: u32, answer: &Answer<impl Message>) -> Vec<u8> {
    let mut frame = Vec::new();
    match answer {
        Ok(message) => put_message(&mut frame, call, Kind::Reply, message),
        Err(error) => put_error(&mut frame, call, error),
    }
    frame
}

fn frames(call: u32, events: Events<impl Message + 'static>) -> EventFrames {
    Box::pin(events.map(move |event| {
        event.map(|message| {
            let mut frame = Vec::new();
            put_message(&mut frame, call, Kind::Event, &message);
            frame
        })
    }))
}
