//! One connection that speaks frames: reads requests, keeps account of calls.
//!
//! Invariants: a call is in the table from its request until its last frame is handed to the
//! outbox, and nobody else sends frames of it. What a call does is none of this module's business:
//! [`Handler`] turns a request into a [`Call`].
//!
//! A connection that is lost ends no exec: unary calls run to their end unheard. Streams are
//! dropped, because their caller reattaches; an upload fails, because it cannot be completed.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use sandboxd_proto::frame::{
    Frame, FrameError, Kind, put_empty, put_error, put_message, read_credit, split_request,
};
use sandboxd_proto::{CallError, ErrorCode, Method, v1};
use tokio::task::AbortHandle;
use tokio_stream::StreamExt as _;

use super::ended::{Ended, violation};
use super::handler::{Call, EventFrames, Handler, OnCancel, Reply};
use super::input::Input;
use super::outbox::{Lane, Outbox};
use super::window::{Feed, Incoming, SendWindow, incoming};
use crate::call::{Answer, CANCELED};
use crate::lock::lock;
use crate::watch;

/// Calls that one connection may have under way. Above the 1,024 execs of a sandbox.
const MAX_CALLS: usize = 4_096;

/// Bytes of requests whose calls are under way. Above ten of the largest (24 MiB).
const MAX_REQUEST_BYTES: usize = 256 * 1024 * 1024;

/// From the first byte to a whole `Hello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Length, call number and kind of a frame: what does not count against a window.
const HEADER: usize = 9;

/// What must be known of a call under way.
enum Entry {
    Unary {
        on_cancel: Option<OnCancel>,
        request_bytes: usize,
    },
    ServerStream {
        task: AbortHandle,
        window: Arc<SendWindow>,
    },
    /// Without a feed once the peer has sent everything.
    ClientStream {
        feed: Option<Feed>,
    },
}

#[derive(Default)]
struct Calls {
    entries: HashMap<u32, Entry>,
    request_bytes: usize,
}

impl Calls {
    fn insert(&mut self, call: u32, entry: Entry) {
        if let Entry::Unary { request_bytes, .. } = &entry {
            self.request_bytes += request_bytes;
        }
        self.entries.insert(call, entry);
    }

    fn remove(&mut self, call: u32) -> Option<Entry> {
        let entry = self.entries.remove(&call)?;
        if let Entry::Unary { request_bytes, .. } = &entry {
            self.request_bytes -= request_bytes;
        }
        Some(entry)
    }
}

/// Serves one connection, from its preface on, until the peer is gone or breaks the protocol.
///
/// # Errors
///
/// If the socket fails in any other way than by a peer that went away.
pub(crate) async fn serve(handler: impl Handler, socket: OwnedFd) -> io::Result<()> {
    let socket = Arc::new(watch::readable(socket)?);
    let outbox = Outbox::new(Arc::clone(&socket));
    let mut connection = Connection {
        handler,
        input: Input::new(socket),
        outbox: outbox.clone(),
        calls: Arc::default(),
        replies: Vec::new(),
    };
    let ended = connection.run().await;
    connection.lose_calls();
    match ended {
        Ended::Lost(error) => {
            outbox.close();
            if error.kind() == io::ErrorKind::UnexpectedEof { Ok(()) } else { Err(error) }
        }
        Ended::Refused(error) => {
            tracing::info!(%error, "connection refused");
            let mut frame = Vec::new();
            put_error(&mut frame, 0, &error);
            outbox.send(frame, Lane::Stream);
            if tokio::time::timeout(HELLO_TIMEOUT, outbox.finish()).await.is_err() {
                outbox.close();
            }
            Ok(())
        }
    }
}

struct Connection<H> {
    handler: H,
    input: Input,
    outbox: Outbox,
    calls: Arc<Mutex<Calls>>,
    /// Replies that were ready at once, sent together when all that arrived is started.
    replies: Vec<u8>,
}

impl<H: Handler> Connection<H> {
    async fn run(&mut self) -> Ended {
        let served = async {
            let greeted = tokio::time::timeout(HELLO_TIMEOUT, self.greet());
            greeted.await.unwrap_or_else(|_| Err(violation("no hello in time")))?;
            loop {
                while let Some(frame) = self.input.decoder.next_frame()? {
                    self.take(frame)?;
                }
                self.flush();
                if !self.outbox.has_room() {
                    self.outbox.room().await;
                }
                self.input.fill().await?;
            }
        };
        let result: Result<std::convert::Infallible, Ended> = served.await;
        match result {
            Err(ended) => ended,
        }
    }

    async fn greet(&mut self) -> Result<(), Ended> {
        self.input.preface().await?;
        let frame = self.input.frame().await?;
        if frame.kind != Kind::Hello {
            return Err(violation("the first frame is not a hello"));
        }
        let hello = v1::Hello::decode(frame.body).map_err(|_| FrameError::Body)?;
        let ours = env!("CARGO_PKG_VERSION");
        if release(&hello.client_version) != release(ours) {
            let message = format!(
                "agent is version {ours}, client is version {:?}: use the two of one release",
                hello.client_version
            );
            return Err(Ended::Refused(CallError::new(ErrorCode::VersionMismatch, message)));
        }
        let welcome = v1::Welcome { agent_version: ours.to_owned(), pid: std::process::id() };
        put_message(&mut self.replies, 0, Kind::Hello, &welcome);
        // Before anything that does not go through `replies`.
        self.flush();
        // The peer may have given up long ago, while this process was held up. What it asked for it
        // reads of as not done: it is not to happen now. One that leaves later has the greeting.
        if self.input.is_abandoned() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame) -> Result<(), Ended> {
        match frame.kind {
            Kind::Request => self.start(frame.call, frame.body)?,
            // Frames for a call that is over crossed its last frame on the way.
            Kind::Event => {
                if let Some(Entry::ClientStream { feed }) = self.calls().entries.get(&frame.call) {
                    let Some(feed) = feed else { return Err(violation("an event after the end")) };
                    if !feed.push(frame.body) {
                        return Err(violation("an event that was not granted"));
                    }
                }
            }
            Kind::End => {
                let mut calls = self.calls();
                if let Some(Entry::ClientStream { feed }) = calls.entries.get_mut(&frame.call) {
                    *feed = None;
                }
            }
            Kind::Credit => {
                let bytes = read_credit(&frame.body)?;
                let calls = self.calls();
                if let Some(Entry::ServerStream { window, .. }) = calls.entries.get(&frame.call) {
                    window.widen(bytes);
                }
            }
            Kind::Cancel => self.cancel(frame.call),
            Kind::Ping => {
                // Ahead of the replies gathered so far: it asks whether anybody listens.
                let mut pong = Vec::new();
                put_empty(&mut pong, frame.call, Kind::Pong);
                self.outbox.send(pong, Lane::Single);
            }
            Kind::Hello | Kind::Reply | Kind::Error | Kind::Pong => {
                return Err(violation("a frame that only an agent sends"));
            }
        }
        Ok(())
    }

    fn start(&mut self, call: u32, body: Bytes) -> Result<(), Ended> {
        if self.calls().entries.contains_key(&call) {
            return Err(violation("the number of a call that is under way"));
        }
        let request_bytes = body.len();
        let (number, message) = split_request(body)?;
        let started = self.admit(request_bytes).and_then(|()| {
            let method = Method::from_number(number).ok_or_else(|| {
                let message = format!("call {number} is unknown to this agent");
                CallError::new(ErrorCode::Unsupported, message)
            })?;
            self.handler.start(call, method, message)
        });
        match started {
            Err(error) => put_error(&mut self.replies, call, &error),
            Ok(Call::Unary { reply, on_cancel }) => {
                self.start_unary(call, request_bytes, reply, on_cancel);
            }
            Ok(Call::ServerStream(stream)) => self.start_server_stream(call, stream),
            Ok(Call::ClientStream(begin)) => self.start_client_stream(call, begin),
        }
        Ok(())
    }

    fn admit(&self, request_bytes: usize) -> Answer<()> {
        let calls = self.calls();
        let what = if calls.entries.len() >= MAX_CALLS {
            format!("{MAX_CALLS} calls")
        } else if calls.request_bytes + request_bytes > MAX_REQUEST_BYTES {
            format!("{MAX_REQUEST_BYTES} bytes of requests")
        } else {
            return Ok(());
        };
        let message = format!("connection has {what} under way: wait for some, or open another");
        Err(CallError::new(ErrorCode::ResourceExhausted, message))
    }

    fn start_unary(
        &mut self,
        call: u32,
        request_bytes: usize,
        mut reply: Reply,
        on_cancel: Option<OnCancel>,
    ) {
        // Most calls do their work, or hand it on, before they first wait: no task until then.
        if let Poll::Ready(frame) = reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            self.replies.extend_from_slice(&frame);
            return;
        }
        self.calls().insert(call, Entry::Unary { on_cancel, request_bytes });
        let (calls, outbox) = (Arc::clone(&self.calls), self.outbox.clone());
        tokio::spawn(async move {
            let frame = reply.await;
            lock(&calls).remove(call);
            outbox.send(frame, Lane::Single);
        });
    }

    fn start_server_stream(
        &mut self,
        call: u32,
        stream: Pin<Box<dyn Future<Output = Answer<EventFrames>> + Send>>,
    ) {
        let window = Arc::new(SendWindow::new());
        let (calls, outbox) = (Arc::clone(&self.calls), self.outbox.clone());
        let pump = {
            let window = Arc::clone(&window);
            async move {
                let mut last = Vec::new();
                match pump(stream, &window, &outbox).await {
                    Ok(()) => put_empty(&mut last, call, Kind::End),
                    Err(error) => put_error(&mut last, call, &error),
                }
                if lock(&calls).remove(call).is_some() {
                    outbox.send(last, Lane::Stream);
                }
            }
        };
        // The task runs after this function returns, so it finds its entry.
        let task = tokio::spawn(pump).abort_handle();
        self.calls().insert(call, Entry::ServerStream { task, window });
    }

    fn start_client_stream(&mut self, call: u32, begin: Box<dyn FnOnce(Incoming) -> Reply + Send>) {
        let (feed, events) = incoming(call, self.outbox.clone());
        let (calls, outbox) = (Arc::clone(&self.calls), self.outbox.clone());
        let reply = begin(events);
        self.calls().insert(call, Entry::ClientStream { feed: Some(feed) });
        tokio::spawn(async move {
            let frame = reply.await;
            if lock(&calls).remove(call).is_some() {
                outbox.send(frame, Lane::Single);
            }
        });
    }

    /// What a caller wants who waits no longer: an exec of `Run` is ended, and its reply still
    /// comes; a stream is dropped without another frame; other calls just go on.
    fn cancel(&mut self, call: u32) {
        let mut calls = self.calls();
        match calls.entries.get_mut(&call) {
            Some(Entry::Unary { on_cancel, .. }) => {
                if let Some(on_cancel) = on_cancel.take() {
                    tokio::spawn(on_cancel());
                }
            }
            Some(Entry::ServerStream { task, .. }) => {
                task.abort();
                calls.remove(call);
            }
            Some(Entry::ClientStream { feed }) => {
                // The call cleans up after itself: it is told, not aborted.
                if let Some(feed) = feed.take() {
                    feed.fail("upload was canceled", CANCELED);
                }
                calls.remove(call);
            }
            None => {}
        }
    }

    fn lose_calls(&mut self) {
        for (_, entry) in self.calls().entries.drain() {
            match entry {
                Entry::Unary { .. } => {}
                Entry::ServerStream { task, .. } => task.abort(),
                Entry::ClientStream { feed } => {
                    if let Some(feed) = feed {
                        feed.fail("connection was lost during the upload", "");
                    }
                }
            }
        }
    }

    fn flush(&mut self) {
        if !self.replies.is_empty() {
            self.outbox.send(std::mem::take(&mut self.replies), Lane::Single);
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        lock(&self.calls)
    }
}

/// What must be equal in two versions: everything before the second dot.
fn release(version: &str) -> Option<(&str, &str)> {
    let mut parts = version.split('.');
    Some((parts.next()?, parts.next()?))
}

/// Sends a stream as fast as the peer grants and the socket takes, one event at a time.
async fn pump(
    stream: Pin<Box<dyn Future<Output = Answer<EventFrames>> + Send>>,
    window: &SendWindow,
    outbox: &Outbox,
) -> Answer<()> {
    let mut stream = stream.await?;
    loop {
        window.open().await;
        outbox.room().await;
        let Some(frame) = stream.next().await.transpose()? else { return Ok(()) };
        window.take(frame.len().saturating_sub(HEADER));
        outbox.send(frame, Lane::Stream);
    }
}
