//! Input and output while a command runs.

use std::time::Duration;

use bytes::Bytes;
use sandboxd_proto::v1;
use sandboxd_proto::v1::exec_attach_response::Event;
use tokio_stream::StreamExt as _;

use super::{Live, program, shell};

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
    let gone = stalled.next().await.unwrap().unwrap_err();
    assert!(gone.reason.starts_with("stdout_from:"), "{gone}");
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
    let result = tokio::time::timeout(Duration::from_secs(30), exec.result()).await.unwrap();
    let end = result.unwrap().end.unwrap();
    assert_eq!((end.exit_code, end.stdout_total_bytes), (Some(0), 200_000_000));
    live.end().await;
}
