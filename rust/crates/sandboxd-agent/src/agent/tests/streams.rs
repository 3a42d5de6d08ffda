//! Input and output while a command runs.

use std::time::Duration;

use bytes::Bytes;
use sandboxd_proto::v1::exec_attach_response::Event;
use sandboxd_proto::{ErrorCode, v1};
use tokio_stream::StreamExt as _;

use super::{Live, program, shell};
use crate::call::Answer;
use crate::exec::Find;

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn h9_a_started_command_takes_input_and_streams_its_output_with_the_end_last() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let id = || ("a".to_owned(), "cat".to_owned());
    let (sandbox_id, exec_id) = id();
    let command = Some(program("cat"));
    let request =
        v1::ExecStartRequest { sandbox_id, exec_id, command, stdin: true, ..Default::default() };
    let started = live.agent.exec_start(request.clone()).await.unwrap();
    assert!(started.pid > 0 && started.started);
    assert!(!live.agent.exec_start(request).await.unwrap().started);
    for (offset, data) in [(0, "x\n"), (0, "x\ny"), (3, "\n")] {
        let (sandbox_id, exec_id) = id();
        let data = Bytes::from_static(data.as_bytes());
        let eof = offset == 3;
        let write = v1::ExecWriteStdinRequest {
            sandbox_id,
            exec_id,
            offset,
            data,
            eof,
            ..Default::default()
        };
        live.agent.exec_write_stdin(write).await.unwrap();
    }
    let (sandbox_id, exec_id) = id();
    let request = v1::ExecAttachRequest { sandbox_id, exec_id, ..Default::default() };
    let events: Vec<_> = live.agent.exec_attach(request).await.unwrap().collect().await;
    let mut output = Vec::new();
    for event in &events[..events.len() - 1] {
        let Some(Event::Stdout(part)) = &event.as_ref().unwrap().event else { panic!("{event:?}") };
        assert_eq!(part.offset, output.len() as u64);
        output.extend_from_slice(&part.data);
    }
    assert_eq!(output, b"x\ny\n");
    let Some(Event::End(end)) = events.last().unwrap().as_ref().unwrap().event.clone() else {
        panic!()
    };
    assert_eq!(end.exit_code, Some(0));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn o9_a_reader_gets_every_byte_of_more_than_a_window() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let id = || ("a".to_owned(), "big".to_owned());
    let (sandbox_id, exec_id) = id();
    let command = Some(shell("head -c 100000000 /dev/zero | tr '\\0' x"));
    let request =
        v1::ExecStartRequest { sandbox_id, exec_id, command, stdin: false, ..Default::default() };
    live.agent.exec_start(request).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (sandbox_id, exec_id) = id();
    let request = v1::ExecAttachRequest { sandbox_id, exec_id, ..Default::default() };
    let stalled = live.agent.exec_attach(request.clone()).await.unwrap();
    let mut reader = live.agent.exec_attach(request).await.unwrap();
    let mut total = 0;
    let end = loop {
        match reader.next().await.unwrap().unwrap().event.unwrap() {
            Event::Stdout(part) => {
                assert_eq!(part.offset, total);
                total += part.data.len() as u64;
            }
            Event::Stderr(_) => panic!("nothing was written there"),
            Event::End(end) => break end,
        }
    };
    assert_eq!((total, end.stdout_total_bytes), (100_000_000, 100_000_000));
    assert!(reader.next().await.is_none());
    let mut stalled = stalled;
    let mut late = 0;
    while let Some(event) = stalled.next().await {
        if let Event::Stdout(part) = event.unwrap().event.unwrap() {
            assert_eq!(part.offset, late);
            assert!(part.data.iter().all(|byte| *byte == b'x'));
            late += part.data.len() as u64;
        }
    }
    assert_eq!(late, 100_000_000, "it had fallen behind by all of it, and reads it from disk");
    live.end().await;
}

async fn start(live: &Live, exec_id: &str, line: &str, output: v1::OutputPolicy) {
    let request = v1::ExecStartRequest {
        sandbox_id: "a".to_owned(),
        exec_id: exec_id.to_owned(),
        command: Some(shell(line)),
        output: output.into(),
        ..Default::default()
    };
    live.agent.exec_start(request).await.unwrap();
}

fn attach(exec_id: &str) -> v1::ExecAttachRequest {
    let (sandbox_id, exec_id) = ("a".to_owned(), exec_id.to_owned());
    v1::ExecAttachRequest { sandbox_id, exec_id, ..Default::default() }
}

async fn end_of(live: &Live, exec_id: &str) -> v1::ExecEnd {
    let Find::Known(exec) = live.agent.sandbox("a").unwrap().execs().find(exec_id) else {
        panic!("{exec_id} is not known")
    };
    exec.result(0).await.unwrap().end.unwrap()
}

/// Offset of the first byte, number of bytes, and whether the end came.
async fn read(live: &Live, request: v1::ExecAttachRequest) -> Answer<(u64, u64, bool)> {
    let mut events = live.agent.exec_attach(request).await?;
    let (mut first, mut count, mut ended) = (None, 0, false);
    while let Some(event) = events.next().await {
        match event?.event.unwrap() {
            Event::Stdout(part) | Event::Stderr(part) => {
                first = first.or(Some(part.offset));
                count += part.data.len() as u64;
            }
            Event::End(_) => ended = true,
        }
    }
    Ok((first.unwrap_or_default(), count, ended))
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn z10_what_is_dropped_is_refused_with_what_is_there_and_jumped_over_by_who_was_there() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let line = "sleep 0.5; seq 1 1000000";
    start(&live, "drop", line, v1::OutputPolicy::DropOldest).await;
    let (early, end) = tokio::join!(read(&live, attach("drop")), end_of(&live, "drop"));
    assert_eq!(end.stdout_total_bytes, 6_888_896);
    assert_eq!(end.stdout_sha256.len(), 32);
    assert!(early.is_ok_and(|(_, count, ended)| count > 0 && ended));
    let error = read(&live, attach("drop")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::OutputRange);
    let (start, end) = error.reason.strip_prefix("stdout:").unwrap().split_once('-').unwrap();
    assert_eq!(end, "6888896");
    let offset: u64 = start.parse().unwrap();
    assert!(offset > 0, "{error}");
    let kept = v1::ExecAttachRequest { stdout_offset: offset, ..attach("drop") };
    assert_eq!(read(&live, kept).await, Ok((offset, 6_888_896 - offset, true)));
    let beyond = v1::ExecAttachRequest { stdout_offset: 6_888_897, ..attach("drop") };
    let error = read(&live, beyond).await.unwrap_err();
    assert_eq!(error.reason, format!("stdout:{offset}-6888896"));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn z10_a_reader_that_does_not_wait_ends_with_what_is_there() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    start(&live, "talk", "echo out; echo err >&2; sleep 300", v1::OutputPolicy::Spill).await;
    let now = || v1::ExecAttachRequest { no_wait: true, ..attach("talk") };
    let both = async {
        while read(&live, now()).await.unwrap() != (0, 8, false) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), both).await.unwrap();
    let only = v1::ExecAttachRequest {
        stream: v1::OutputStream::Stderr.into(),
        stdout_offset: 99,
        stderr_offset: 1,
        length: Some(2),
        ..now()
    };
    assert_eq!(read(&live, only).await, Ok((1, 2, false)));
    let cancel = v1::ExecSignalRequest {
        sandbox_id: "a".to_owned(),
        exec_id: "talk".to_owned(),
        cancel: true,
        ..Default::default()
    };
    live.agent.exec_signal(cancel).await.unwrap();
    end_of(&live, "talk").await;
    assert_eq!(read(&live, now()).await, Ok((0, 8, true)));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn z10_a_program_that_blocks_waits_for_its_reader() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    start(&live, "slow", "seq 1 1000000", v1::OutputPolicy::Block).await;
    let Find::Known(exec) = live.agent.sandbox("a").unwrap().execs().find("slow") else { panic!() };
    let ended = tokio::time::timeout(Duration::from_secs(2), exec.result(0)).await;
    assert!(ended.is_err(), "nobody reads");
    assert_eq!(read(&live, attach("slow")).await, Ok((0, 6_888_896, true)));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn h4_without_a_reader_a_program_runs_to_its_end() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let (sandbox_id, exec_id) = ("a".to_owned(), "big".to_owned());
    let command = Some(shell("head -c 200000000 /dev/zero"));
    let request =
        v1::ExecStartRequest { sandbox_id, exec_id, command, stdin: false, ..Default::default() };
    live.agent.exec_start(request).await.unwrap();
    let exec = live.agent.sandbox("a").unwrap().execs().all().pop().unwrap();
    let result = tokio::time::timeout(Duration::from_secs(30), exec.result(0)).await.unwrap();
    let end = result.unwrap().end.unwrap();
    assert_eq!((end.exit_code, end.stdout_total_bytes), (Some(0), 200_000_000));
    live.end().await;
}
