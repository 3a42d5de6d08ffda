//! The state machine against an agent that is a list of frames.

use proptest::prelude::*;
use sandboxd_proto::frame::{MAX_REQUEST, WINDOW};

use super::*;

pub(super) const VERSION: &str = "0.1.0";

pub(super) fn options() -> Options {
    Options {
        version: VERSION.to_owned(),
        keepalive: Duration::from_secs(1),
        greeting: Duration::from_secs(10),
    }
}

fn connection() -> Connection {
    Connection::new(options(), Instant::now())
}

fn info() -> Request {
    Request::SandboxesInfo(v1::SandboxesInfoRequest {})
}

fn run() -> Request {
    Request::ExecRun(v1::ExecRunRequest { exec_id: "x".to_owned(), ..Default::default() })
}

fn read() -> Request {
    Request::FilesRead(v1::FilesReadRequest::default())
}

fn write(content: Vec<u8>) -> Request {
    Request::FilesWrite(v1::FilesWriteTarget::default(), content.into())
}

pub(super) fn welcome(version: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    let message = v1::Welcome { agent_version: version.to_owned(), pid: 7 };
    frame::put_message(&mut wire, 0, Kind::Hello, &message);
    wire
}

fn file_part(call: u32, data: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    let message = v1::FilesReadResponse { data: data.to_vec().into(), ..Default::default() };
    frame::put_message(&mut wire, call, Kind::Event, &message);
    wire
}

fn empty(call: u32, kind: Kind) -> Vec<u8> {
    let mut wire = Vec::new();
    frame::put_empty(&mut wire, call, kind);
    wire
}

/// Takes everything that the connection has to say, as the agent sees it.
fn sent(connection: &mut Connection) -> Vec<u8> {
    let bytes = connection.pending().to_vec();
    connection.written(bytes.len());
    bytes
}

fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = Decoder::new(MAX_REQUEST);
    decoder.buffer(bytes.len()).extend_from_slice(bytes);
    std::iter::from_fn(|| decoder.next_frame().unwrap()).collect()
}

fn open() -> Connection {
    let mut connection = connection();
    sent(&mut connection);
    connection.receive(&welcome(VERSION));
    connection
}

fn begin(connection: &mut Connection, request: &Request) -> u32 {
    connection.request(request, Instant::now()).unwrap()
}

fn error_of(connection: &mut Connection, call: u32) -> CallError {
    connection.take_reply(call).unwrap().unwrap_err()
}

#[test]
fn a_claim_is_sent_before_the_agent_has_answered_and_what_follows_it_in_order_after_that() {
    let mut connection = connection();
    let claim = || Request::SandboxesClaim(v1::SandboxesClaimRequest::default());
    let calls = [claim(), run(), claim()].map(|request| begin(&mut connection, &request));
    let bytes = sent(&mut connection);
    assert_eq!(&bytes[..4], PREFACE);
    let kinds =
        |bytes| frames(bytes).iter().map(|frame| (frame.call, frame.kind)).collect::<Vec<_>>();
    assert_eq!(kinds(&bytes[4..]), [(0, Kind::Hello), (calls[0], Kind::Request)]);
    assert_eq!(sent(&mut connection), b"");
    connection.receive(&welcome(VERSION));
    assert_eq!(
        kinds(&sent(&mut connection)),
        [(calls[1], Kind::Request), (calls[2], Kind::Request)]
    );
}

#[test]
fn x1_a_command_whose_connection_never_came_about_was_not_even_sent() {
    let mut connection = connection();
    let call = begin(&mut connection, &run());
    assert!(frames(&sent(&mut connection)[4..]).iter().all(|frame| frame.call != call));
    connection.disconnected("closed");
    let error = error_of(&mut connection, call);
    assert_eq!((error.code, error.may_have_run), (ErrorCode::AgentUnreachable, false));
    assert_eq!(sent(&mut connection), b"");
}

#[test]
fn an_agent_of_another_release_is_refused() {
    for version in ["0.2.0", "1.1.0", "", "nonsense"] {
        let mut connection = connection();
        let call = begin(&mut connection, &run());
        sent(&mut connection);
        connection.receive(&welcome(version));
        let error = error_of(&mut connection, call);
        assert_eq!((error.code, error.may_have_run), (ErrorCode::VersionMismatch, false));
    }
}

#[test]
fn a_newer_patch_release_is_fine() {
    let mut connection = connection();
    connection.receive(&welcome("0.1.9"));
    assert!(!connection.is_failed());
    assert_eq!(connection.agent_pid(), 7);
}

#[test]
fn before_the_greeting_nothing_can_have_run() {
    let mut connection = connection();
    let call = begin(&mut connection, &run());
    sent(&mut connection);
    connection.disconnected("closed");
    let error = error_of(&mut connection, call);
    assert_eq!((error.code, error.may_have_run), (ErrorCode::AgentUnreachable, false));
}

#[test]
fn a_call_that_was_written_may_have_run_and_one_that_was_not_cannot() {
    let mut connection = open();
    let first = begin(&mut connection, &run());
    sent(&mut connection);
    let second = begin(&mut connection, &run());
    connection.written(1);
    connection.disconnected("closed");
    let error = error_of(&mut connection, first);
    assert_eq!((error.code, error.may_have_run), (ErrorCode::ConnectionLost, true));
    let error = error_of(&mut connection, second);
    assert_eq!((error.code, error.may_have_run), (ErrorCode::AgentUnreachable, false));
}

#[test]
fn an_upload_that_was_cut_has_not_happened() {
    let mut connection = open();
    let call = begin(&mut connection, &write(vec![1; 10 * WINDOW as usize]));
    sent(&mut connection);
    connection.disconnected("closed");
    let error = error_of(&mut connection, call);
    assert_eq!((error.code, error.may_have_run), (ErrorCode::ConnectionLost, false));
}

#[test]
fn after_a_failure_no_call_begins() {
    let mut connection = open();
    connection.disconnected("closed");
    let error = connection.request(&run(), Instant::now()).unwrap_err();
    assert_eq!((error.code, error.may_have_run), (ErrorCode::AgentUnreachable, false));
    assert_eq!(connection.pending(), b"");
}

#[test]
fn an_error_of_the_agent_passes_unchanged() {
    let mut connection = open();
    let call = begin(&mut connection, &run());
    let lost = CallError::new(ErrorCode::SandboxLost, "gone").with_reason("init").maybe_run(true);
    let mut wire = Vec::new();
    frame::put_error(&mut wire, call, &lost);
    connection.receive(&wire);
    assert_eq!(error_of(&mut connection, call), lost);
}

#[test]
fn an_error_of_the_connection_ends_every_call() {
    let mut connection = open();
    let calls = [begin(&mut connection, &run()), begin(&mut connection, &read())];
    sent(&mut connection);
    let mut wire = Vec::new();
    frame::put_error(&mut wire, 0, &CallError::new(ErrorCode::InvalidArgument, "bad frame"));
    connection.receive(&wire);
    assert_eq!(error_of(&mut connection, calls[0]).code, ErrorCode::ConnectionLost);
    assert_eq!(connection.take_items(calls[1]).unwrap_err().code, ErrorCode::ConnectionLost);
}

#[test]
fn a_cancelled_run_is_told_to_the_agent_and_its_late_reply_dropped() {
    let mut connection = open();
    let call = begin(&mut connection, &run());
    sent(&mut connection);
    connection.cancel(call);
    assert_eq!(sent(&mut connection), empty(call, Kind::Cancel));
    connection.receive(&empty(call, Kind::Reply));
    assert!(connection.take_ready().is_empty());
    assert!(!connection.is_failed());
}

#[test]
fn a_short_call_that_is_cancelled_still_happens() {
    let mut connection = open();
    let request = Request::SandboxesRelease(v1::SandboxesReleaseRequest::default());
    let call = begin(&mut connection, &request);
    sent(&mut connection);
    connection.cancel(call);
    assert_eq!(connection.pending(), b"");
}

#[test]
fn the_agent_may_send_more_once_items_are_taken() {
    let mut connection = open();
    let call = begin(&mut connection, &read());
    sent(&mut connection);
    let part = vec![0; WINDOW as usize * 3 / 4];
    connection.receive(&file_part(call, &part));
    assert_eq!(connection.pending(), b"");
    let Items::Some(items) = connection.take_items(call).unwrap() else { panic!("no items") };
    let granted = frames(&sent(&mut connection));
    assert_eq!(granted[0].kind, Kind::Credit);
    assert_eq!(frame::read_credit(&granted[0].body).unwrap() as usize, items[0].len());
}

#[test]
fn items_before_an_error_are_not_lost() {
    let mut connection = open();
    let call = begin(&mut connection, &read());
    sent(&mut connection);
    connection.receive(&file_part(call, b"x"));
    connection.disconnected("closed");
    assert!(matches!(connection.take_items(call), Ok(Items::Some(_))));
    assert_eq!(connection.take_items(call).unwrap_err().code, ErrorCode::ConnectionLost);
    assert_eq!(connection.take_items(call), Ok(Items::End));
}

#[test]
fn silence_ends_the_calls_that_wait_and_a_quiet_connection_lives() {
    let mut now = Instant::now();
    let mut connection = open();
    assert_eq!(connection.next_tick(), None);
    let call = connection.request(&run(), now).unwrap();
    sent(&mut connection);
    let mut pings = 0;
    while !connection.is_failed() {
        now = connection.next_tick().unwrap();
        connection.tick(now);
        pings += frames(&sent(&mut connection)).len();
    }
    assert_eq!(pings, MISSED_KEEPALIVES as usize - 1);
    let error = error_of(&mut connection, call);
    assert_eq!((error.code, error.may_have_run), (ErrorCode::ConnectionLost, true));
}

#[test]
fn an_agent_that_never_greets_is_unreachable() {
    let now = Instant::now();
    let mut connection = Connection::new(options(), now);
    let call = connection.request(&run(), now).unwrap();
    sent(&mut connection);
    connection.tick(now + Duration::from_secs(9));
    assert!(!connection.is_failed());
    connection.tick(now + Duration::from_secs(10));
    assert_eq!(error_of(&mut connection, call).code, ErrorCode::AgentUnreachable);
}

#[test]
fn a_ping_of_the_agent_is_answered() {
    let mut connection = open();
    connection.receive(&empty(0, Kind::Ping));
    assert_eq!(sent(&mut connection), empty(0, Kind::Pong));
}

proptest! {
    #[test]
    fn an_upload_keeps_to_the_window_and_arrives_whole(
        size in 0_usize..1_500_000,
        grants in prop::collection::vec(1_u32..400_000, 1..30),
    ) {
        let content: Vec<u8> = (0..size).map(|byte| (byte % 251).try_into().unwrap()).collect();
        let mut connection = open();
        let call = begin(&mut connection, &write(content.clone()));
        let (mut window, mut arrived, mut ended) = (u64::from(WINDOW), Vec::new(), false);
        let mut grants = grants.into_iter().cycle();
        while !ended {
            for frame in frames(&sent(&mut connection)) {
                match frame.kind {
                    Kind::Event => {
                        let length = frame.body.len() as u64;
                        prop_assert!(length <= window);
                        window -= length;
                        let message = v1::FilesWriteRequest::decode(frame.body).unwrap();
                        let Some(v1::files_write_request::Part::Data(data)) = message.part else {
                            panic!("not data")
                        };
                        arrived.extend_from_slice(&data);
                    }
                    Kind::End => ended = true,
                    _ => {}
                }
            }
            if !ended {
                let grant = grants.next().unwrap();
                window += u64::from(grant);
                let mut wire = Vec::new();
                frame::put_credit(&mut wire, call, grant);
                connection.receive(&wire);
            }
        }
        prop_assert_eq!(arrived, content);
    }

    #[test]
    fn answers_come_out_the_same_however_the_bytes_are_cut(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..10),
        cuts in prop::collection::vec(1_usize..60, 1..20),
    ) {
        let mut connection = connection();
        let unary = begin(&mut connection, &info());
        let stream = begin(&mut connection, &read());
        let mut wire = welcome(VERSION);
        for part in &parts {
            wire.extend(file_part(stream, part));
        }
        let info = v1::SandboxesInfoResponse { version: "v".to_owned(), ..Default::default() };
        frame::put_message(&mut wire, unary, Kind::Reply, &info);
        wire.extend(empty(stream, Kind::End));

        let mut seen = Vec::new();
        let mut rest = &wire[..];
        let mut cuts = cuts.into_iter().cycle();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
            rest = after;
            connection.receive(chunk);
            if let Ok(Items::Some(items)) = connection.take_items(stream) {
                seen.extend(items);
            }
        }
        let seen: Vec<_> = seen
            .into_iter()
            .map(|body| v1::FilesReadResponse::decode(body).unwrap().data.to_vec())
            .collect();
        prop_assert_eq!(seen, parts);
        prop_assert_eq!(connection.take_items(stream), Ok(Items::End));
        let body = connection.take_reply(unary).unwrap().unwrap();
        prop_assert_eq!(v1::SandboxesInfoResponse::decode(body).unwrap(), info);
    }

    #[test]
    fn hostile_bytes_end_the_connection_or_are_dropped(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        greeted in any::<bool>(),
    ) {
        let mut connection = if greeted { open() } else { connection() };
        let call = begin(&mut connection, &run());
        connection.receive(&bytes);
        if connection.is_failed() {
            prop_assert!(connection.take_reply(call).unwrap().is_err());
        }
    }
}
