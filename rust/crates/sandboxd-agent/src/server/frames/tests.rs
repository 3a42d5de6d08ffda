//! A connection against a double of the agent, byte for byte as a client sees it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use sandboxd_proto::frame::{
    Decoder, Frame, Kind, MAX_REPLY, PREFACE, WINDOW, put_credit, put_empty, put_error,
    put_message, put_request,
};
use sandboxd_proto::{CallError, ErrorCode, Method, v1};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;

use super::connection::serve;
use super::handler::{Call, EventFrames, Handler};
use crate::call::Answer;

/// Answers `Info` at once, never answers `Run` but notes its cancellation, streams zeros without
/// end for `Read`, and counts what `Write` receives.
#[derive(Clone)]
struct Double {
    canceled: mpsc::UnboundedSender<u32>,
}

fn framed(call: u32, kind: Kind, message: &impl Message) -> Vec<u8> {
    let mut frame = Vec::new();
    put_message(&mut frame, call, kind, message);
    frame
}

impl Handler for Double {
    fn start(&self, call: u32, method: Method, _message: Bytes) -> Answer<Call> {
        match method {
            Method::SandboxesInfo => {
                let reply = framed(call, Kind::Reply, &v1::SandboxesInfoResponse::default());
                Ok(Call::Unary { reply: Box::pin(async { reply }), on_cancel: None })
            }
            Method::ExecRun => {
                let canceled = self.canceled.clone();
                Ok(Call::Unary {
                    reply: Box::pin(std::future::pending()),
                    on_cancel: Some(Box::new(move || {
                        Box::pin(async move {
                            let _ = canceled.send(call);
                        })
                    })),
                })
            }
            Method::FilesRead => Ok(Call::ServerStream(Box::pin(async move {
                let data = Bytes::from_static(&[0; 32 * 1024]);
                let event = framed(
                    call,
                    Kind::Event,
                    &v1::FilesReadResponse { data, ..Default::default() },
                );
                let items = std::iter::repeat_with(move || Ok(event.clone()));
                Ok(Box::pin(tokio_stream::iter(items)) as EventFrames)
            }))),
            Method::FilesWrite => Ok(Call::ClientStream(Box::new(move |mut events| {
                Box::pin(async move {
                    let mut size = 0;
                    loop {
                        match events.next().await {
                            Some(Ok(body)) => size += body.len() as u64,
                            Some(Err(error)) => {
                                let mut frame = Vec::new();
                                put_error(&mut frame, call, &error);
                                return frame;
                            }
                            None => break,
                        }
                    }
                    let sha256 = Bytes::new();
                    framed(call, Kind::Reply, &v1::FilesWriteResponse { size, sha256 })
                })
            }))),
            _ => Err(CallError::new(ErrorCode::InvalidArgument, "not in the double")),
        }
    }
}

struct Client {
    stream: UnixStream,
    decoder: Decoder,
    canceled: mpsc::UnboundedReceiver<u32>,
}

/// Runs `test` as a blocking client of a served connection.
fn with_client(test: impl FnOnce(Client) + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (sender, canceled) = mpsc::unbounded_channel();
        let served = tokio::spawn(serve(Double { canceled: sender }, ours.into()));
        let client = Client { stream: theirs, decoder: Decoder::new(MAX_REPLY), canceled };
        tokio::task::spawn_blocking(move || test(client)).await.unwrap();
        // Whatever the test did, the connection ends once its peer is gone.
        let _ = tokio::time::timeout(Duration::from_secs(20), served).await.unwrap();
    });
}

impl Client {
    fn greet(&mut self) {
        self.stream.write_all(PREFACE).unwrap();
        self.hello(env!("CARGO_PKG_VERSION"));
        let welcome = self.frame().unwrap();
        assert_eq!((welcome.call, welcome.kind), (0, Kind::Hello));
        let welcome = v1::Welcome::decode(welcome.body).unwrap();
        assert_eq!(welcome.agent_version, env!("CARGO_PKG_VERSION"));
    }

    fn hello(&mut self, version: &str) {
        let hello = v1::Hello { client_version: version.to_owned(), token: String::new() };
        self.send(&framed(0, Kind::Hello, &hello));
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn request(&mut self, call: u32, method: Method) {
        let mut frame = Vec::new();
        put_request(&mut frame, call, method, &v1::SandboxesInfoRequest {});
        self.send(&frame);
    }

    fn empty(&mut self, call: u32, kind: Kind) {
        let mut frame = Vec::new();
        put_empty(&mut frame, call, kind);
        self.send(&frame);
    }

    /// The next frame; `None` once the connection is closed.
    fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            let mut buffer = [0; 64 * 1024];
            let count = self.stream.read(&mut buffer).unwrap();
            if count == 0 {
                return None;
            }
            self.decoder.buffer(count).extend_from_slice(&buffer[..count]);
        }
    }

    fn error(&mut self) -> CallError {
        let frame = self.frame().unwrap();
        assert_eq!(frame.kind, Kind::Error);
        v1::Error::decode(frame.body).unwrap().into()
    }
}

#[test]
fn pipelined_calls_are_answered_each_by_its_number() {
    with_client(|mut client| {
        client.greet();
        for call in 1..=100 {
            client.request(call, Method::SandboxesInfo);
        }
        for call in 1..=100 {
            let frame = client.frame().unwrap();
            assert_eq!((frame.call, frame.kind), (call, Kind::Reply));
        }
    });
}

#[test]
fn another_version_is_refused_by_name_and_the_connection_closed() {
    with_client(|mut client| {
        client.send(PREFACE);
        client.hello("0.99.0");
        let error = client.error();
        assert_eq!(error.code, ErrorCode::VersionMismatch);
        assert!(error.message.contains("0.99.0"), "{error}");
        assert_eq!(client.frame(), None);
    });
}

#[test]
fn bytes_that_are_no_frame_close_the_connection_with_the_reason() {
    with_client(|mut client| {
        client.greet();
        client.send(&[0xff; 64]);
        assert_eq!(client.error().code, ErrorCode::InvalidArgument);
        assert_eq!(client.frame(), None);
    });
}

#[test]
fn an_unknown_call_is_an_error_of_that_call_alone() {
    with_client(|mut client| {
        client.greet();
        let mut frame = Vec::new();
        put_request(&mut frame, 7, Method::SandboxesInfo, &v1::SandboxesInfoRequest {});
        *frame.last_mut().unwrap() = 250;
        client.send(&frame);
        assert_eq!(client.error().code, ErrorCode::Unsupported);
        client.request(8, Method::SandboxesInfo);
        assert_eq!(client.frame().unwrap().call, 8);
    });
}

#[test]
fn canceling_a_run_tells_the_exec_once() {
    with_client(|mut client| {
        client.greet();
        client.request(5, Method::ExecRun);
        client.empty(5, Kind::Cancel);
        client.empty(5, Kind::Cancel);
        assert_eq!(client.canceled.blocking_recv(), Some(5));
        client.empty(0, Kind::Ping);
        assert_eq!(client.frame().unwrap().kind, Kind::Pong);
        assert!(client.canceled.try_recv().is_err());
    });
}

#[test]
fn a_stream_stops_at_its_window_and_goes_on_with_credit() {
    with_client(|mut client| {
        client.greet();
        client.request(1, Method::FilesRead);
        let read_until_pong = |client: &mut Client| {
            let mut bytes = 0;
            loop {
                let frame = client.frame().unwrap();
                match frame.kind {
                    Kind::Event => bytes += frame.body.len(),
                    Kind::Pong => return bytes,
                    kind => panic!("unexpected {kind:?}"),
                }
            }
        };
        let event = framed(
            1,
            Kind::Event,
            &v1::FilesReadResponse {
                data: Bytes::from_static(&[0; 32 * 1024]),
                ..Default::default()
            },
        )
        .len()
            - 9;
        let window = WINDOW as usize;
        // Two pings: the first may overtake events, the second is sent when they are here.
        let mut seen = 0;
        while seen < window {
            client.empty(0, Kind::Ping);
            seen += read_until_pong(&mut client);
        }
        assert!(seen < window + event, "{seen}");
        let mut credit = Vec::new();
        put_credit(&mut credit, 1, WINDOW);
        client.send(&credit);
        while seen < 2 * window {
            client.empty(0, Kind::Ping);
            seen += read_until_pong(&mut client);
        }
        assert!(seen < 2 * window + event, "{seen}");
        // Dropped without another frame.
        client.empty(1, Kind::Cancel);
        client.request(2, Method::SandboxesInfo);
        while client.frame().unwrap().call != 2 {}
    });
}

#[test]
fn a_stalled_stream_delays_neither_pongs_nor_other_calls() {
    with_client(|mut client| {
        client.greet();
        for call in 1..=8 {
            client.request(call, Method::FilesRead);
        }
        client.request(9, Method::SandboxesInfo);
        client.empty(0, Kind::Ping);
        let (mut pong, mut reply) = (false, false);
        while !(pong && reply) {
            let frame = client.frame().unwrap();
            pong |= frame.kind == Kind::Pong;
            reply |= frame.call == 9;
        }
    });
}

#[test]
fn an_upload_larger_than_the_window_gets_credit_while_it_is_consumed() {
    with_client(|mut client| {
        client.greet();
        client.request(3, Method::FilesWrite);
        let event = framed(
            3,
            Kind::Event,
            &v1::FilesReadResponse {
                data: Bytes::from_static(&[1; 60 * 1024]),
                ..Default::default()
            },
        );
        let body = event.len() - 9;
        let (mut credit, mut sent) = (WINDOW as usize, 0);
        while sent < 8 << 20 {
            while credit < body {
                let frame = client.frame().unwrap();
                assert_eq!((frame.call, frame.kind), (3, Kind::Credit));
                let grant = sandboxd_proto::frame::read_credit(&frame.body).unwrap();
                credit += grant as usize;
            }
            client.send(&event);
            credit -= body;
            sent += body;
        }
        client.empty(3, Kind::End);
        let reply = loop {
            let frame = client.frame().unwrap();
            if frame.kind != Kind::Credit {
                break frame;
            }
        };
        assert_eq!(reply.kind, Kind::Reply);
        let reply = v1::FilesWriteResponse::decode(reply.body).unwrap();
        assert_eq!(reply.size, sent as u64);
    });
}

#[test]
fn an_upload_without_credit_closes_the_connection() {
    with_client(|mut client| {
        client.greet();
        // `Run` never ends, and takes no events: they are ignored. `Write` counts them.
        client.request(3, Method::FilesWrite);
        let event = framed(
            3,
            Kind::Event,
            &v1::FilesReadResponse {
                data: Bytes::from(vec![1; WINDOW as usize + 1]),
                ..Default::default()
            },
        );
        client.send(&event);
        assert_eq!(client.error().code, ErrorCode::InvalidArgument);
        assert_eq!(client.frame(), None);
    });
}

#[test]
fn more_calls_than_the_limit_are_refused_without_harm_to_the_others() {
    with_client(|mut client| {
        client.greet();
        for call in 1..=4_097 {
            client.request(call, Method::ExecRun);
        }
        let error = client.error();
        assert_eq!(error.code, ErrorCode::ResourceExhausted);
        client.empty(0, Kind::Ping);
        assert_eq!(client.frame().unwrap().kind, Kind::Pong);
    });
}

#[test]
fn x1_what_a_peer_asked_for_that_left_before_the_greeting_does_not_happen() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for leaves in [true, false] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let hello = v1::Hello {
                client_version: env!("CARGO_PKG_VERSION").to_owned(),
                ..v1::Hello::default()
            };
            theirs.write_all(PREFACE).unwrap();
            theirs.write_all(&framed(0, Kind::Hello, &hello)).unwrap();
            let mut asked = Vec::new();
            put_request(&mut asked, 1, Method::ExecRun, &v1::ExecRunRequest::default());
            put_empty(&mut asked, 1, Kind::Cancel);
            theirs.write_all(&asked).unwrap();
            let theirs = (!leaves).then_some(theirs);
            let (sender, mut canceled) = mpsc::unbounded_channel();
            let served = tokio::spawn(serve(Double { canceled: sender }, ours.into()));
            let seen = tokio::time::timeout(Duration::from_millis(500), canceled.recv()).await;
            assert_eq!(seen.ok().flatten(), (!leaves).then_some(1), "leaves: {leaves}");
            drop(theirs);
            let _ = served.await.unwrap();
        }
    });
}

#[test]
fn the_number_of_a_running_call_cannot_be_used_again() {
    with_client(|mut client| {
        client.greet();
        client.request(1, Method::ExecRun);
        client.request(1, Method::ExecRun);
        assert_eq!(client.error().code, ErrorCode::InvalidArgument);
        assert_eq!(client.frame(), None);
    });
}
