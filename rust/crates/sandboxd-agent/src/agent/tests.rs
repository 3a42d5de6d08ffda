//! The agent with a real launcher and real sandboxes, called as its servers call it.
//!
//! Needs root and a built `sandboxd-init` beside the test binary: `cargo build -p sandboxd-init`,
//! then `cargo test -p sandboxd-agent -- --ignored`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sandboxd_linux::cgroup::{Cgroups, Layout, Owner};
use sandboxd_proto::v1::Cause;
use sandboxd_proto::v1::exec_attach_response::Event;
use sandboxd_proto::{ErrorCode, v1};
use tokio_stream::StreamExt as _;

use super::{Agent, AgentConfig};
use crate::call::Answer;
use crate::capabilities::{Capabilities, Capability, Feature};
use crate::state::StateFolder;
use crate::templates::Templates;

struct Live {
    agent: Agent,
    cgroups: Cgroups,
    _folder: tempfile::TempDir,
}

impl Live {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&folder.path().join("state")).unwrap();
        let templates = Templates::build(&state).unwrap();
        let owner = Owner::current().unwrap();
        let cgroups = Cgroups::set_up(&Layout::of_this_process().unwrap(), &owner);
        let controls = cgroups.controls();
        let features = [
            (Feature::IdRange, true),
            (Feature::MemoryLimit, controls.memory),
            (Feature::PidsLimit, controls.pids),
            (Feature::CpuLimit, controls.cpu),
            (Feature::DiskLimit, true),
        ];
        let capability = |(feature, available)| {
            let detail = String::new();
            Capability { feature, available, detail }
        };
        let capabilities = Capabilities::new(features.map(capability).to_vec());
        let test_binary = std::env::current_exe().unwrap();
        let init = test_binary.parent().unwrap().parent().unwrap().join("sandboxd-init");
        let config = AgentConfig { state, templates, capabilities, cgroups: cgroups.clone(), init };
        Self { agent: Agent::start(config).unwrap(), cgroups, _folder: folder }
    }

    async fn claim(&self, id: &str, limits: v1::Limits) -> v1::Sandbox {
        let request = v1::SandboxesClaimRequest {
            sandbox_id: id.to_owned(),
            template: "host".to_owned(),
            limits: Some(limits),
            ..Default::default()
        };
        self.agent.sandboxes_claim(request).await.unwrap().sandbox.unwrap()
    }

    async fn run(&self, exec_id: &str, command: v1::Command) -> Answer<v1::ExecRunResponse> {
        let request = v1::ExecRunRequest {
            sandbox_id: "a".to_owned(),
            exec_id: exec_id.to_owned(),
            command: Some(command),
            ..Default::default()
        };
        self.agent.exec_run(request).await
    }

    async fn end(self) {
        self.agent.shut_down().await;
        let left: Vec<PathBuf> =
            self.cgroups.trees().into_iter().filter(|tree| tree.exists()).collect();
        assert!(left.is_empty(), "cgroups are left behind: {left:?}");
    }
}

fn shell(line: &str) -> v1::Command {
    v1::Command { shell: Bytes::copy_from_slice(line.as_bytes()), ..Default::default() }
}

fn within(command: v1::Command, timeout: Duration) -> v1::Command {
    v1::Command { timeout_ns: Some(timeout.as_nanos().try_into().unwrap()), ..command }
}

fn program(name: &'static str) -> v1::Command {
    v1::Command { argv: vec![Bytes::from_static(name.as_bytes())], ..Default::default() }
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn a_command_runs_and_its_whole_result_comes_back() {
    let live = Live::start();
    let sandbox = live.claim("a", v1::Limits::default()).await;
    assert_eq!(sandbox.state(), v1::SandboxState::Ready);

    let line = "echo out; echo err >&2; pwd; id -u; hostname; exit 3";
    let result = live.run("1", shell(line)).await.unwrap();
    let end = result.end.unwrap();
    assert_eq!((end.cause(), end.exit_code, end.signal), (Cause::Exited, Some(3), None));
    assert_eq!(result.stdout, "out\n/root\n0\na\n");
    assert_eq!(result.stderr, "err\n");
    assert!(end.cpu_time_ns > 0 && end.peak_memory_bytes > 0 && end.duration_ns > 0);

    let again = live.run("1", shell(line)).await.unwrap();
    assert_eq!(again.end.unwrap().duration_ns, end.duration_ns, "it ran once");
    let conflict = live.run("1", shell("other")).await.unwrap_err();
    assert_eq!(conflict.code, ErrorCode::ExecConflict);
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn x9_what_cannot_start_is_an_error_that_names_the_step() {
    let live = Live::start();
    live.claim("a", v1::Limits::default()).await;
    let step = |result: Answer<v1::ExecRunResponse>| {
        let error = result.unwrap_err();
        assert_eq!(error.code, ErrorCode::ExecFailed, "{error}");
        assert!(!error.may_have_run);
        (error.reason, error.message)
    };
    let (reason, message) = step(live.run("1", program("no-such-program")).await);
    assert!(reason == "program" && message.contains("no-such-program"), "{message}");
    let nowhere = v1::Command { cwd: Bytes::from_static(b"/nope"), ..program("true") };
    let (reason, message) = step(live.run("2", nowhere).await);
    assert!(reason == "directory" && message.contains("/nope"), "{message}");
    let nobody = v1::Command { user: "ghost".to_owned(), ..program("true") };
    let (reason, message) = step(live.run("3", nobody).await);
    assert!(reason == "user" && message.contains("ghost"), "{message}");
    let user = v1::Command { user: "nobody".to_owned(), ..shell("id -un; pwd") };
    assert_eq!(live.run("4", user).await.unwrap().stdout, "nobody\n/\n");
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn t8_a_deadline_ends_the_whole_tree_and_keeps_what_it_said() {
    let live = Live::start();
    live.claim("a", v1::Limits::default()).await;
    let line = "echo a; echo b >&2; setsid sleep 61 & (setsid sh -c 'sleep 62 &'); sleep 63";
    let started = Instant::now();
    let result = live.run("1", within(shell(line), Duration::from_secs(1))).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(1_500), "{:?}", started.elapsed());
    let end = result.end.unwrap();
    assert_eq!(
        (end.cause(), end.exit_code, end.limit),
        (Cause::Timeout, None, Some(1_000_000_000))
    );
    assert_eq!((&result.stdout[..], &result.stderr[..]), (&b"a\n"[..], &b"b\n"[..]));
    let left = live.run("2", shell("ps -ef | grep -c '[s]leep'")).await.unwrap();
    assert_eq!(left.stdout, "0\n");

    let started = Instant::now();
    let result = live.run("3", shell("echo hi; sleep 8 &")).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(500));
    assert_eq!((result.end.unwrap().exit_code, &result.stdout[..]), (Some(0), &b"hi\n"[..]));
    let left = live.run("4", shell("ps -ef | grep -c '[s]leep'")).await.unwrap();
    assert_eq!(left.stdout, "1\n", "background children live on");
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn t10_every_status_is_its_own() {
    let live = Live::start();
    live.claim("a", v1::Limits::default()).await;
    let mut tasks = Vec::new();
    for worker in 0..32 {
        let agent = live.agent.clone();
        tasks.push(tokio::spawn(async move {
            for number in 0..625 {
                let (name, code) = if number % 2 == 0 { ("true", 0) } else { ("false", 1) };
                let request = v1::ExecRunRequest {
                    sandbox_id: "a".to_owned(),
                    exec_id: format!("{worker}-{number}"),
                    command: Some(program(name)),
                    ..Default::default()
                };
                let end = agent.exec_run(request).await.unwrap().end.unwrap();
                assert_eq!((end.cause(), end.exit_code), (Cause::Exited, Some(code)));
            }
        }));
    }
    let started = Instant::now();
    for task in tasks {
        task.await.unwrap();
    }
    eprintln!("20,000 in {:?}", started.elapsed());
    let zombies = live.run("z", shell("ps -eo stat | grep -c '^Z'")).await.unwrap();
    assert_eq!(zombies.stdout, "0\n");
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn m6_a_limit_that_was_met_is_the_cause_with_value_and_peak() {
    let live = Live::start();
    let limits = v1::Limits {
        memory_bytes: Some(256 << 20),
        pids: Some(64),
        disk_bytes: Some(64 << 20),
        output_bytes: Some(1 << 20),
        ..Default::default()
    };
    live.claim("a", limits).await;
    let hog = "python3 -c 'x = bytearray(1 << 30)'; exit 1";
    let end = live.run("memory", shell(hog)).await.unwrap().end.unwrap();
    assert_eq!((end.cause(), end.exit_code), (Cause::MemoryLimit, Some(1)), "{end:?}");
    assert_eq!(end.limit, Some(256 << 20));
    assert!(end.peak_memory_bytes > 230 << 20, "{end:?}");

    let crowd = "for i in $(seq 100); do sleep 5 & done; wait";
    let end = live.run("pids", shell(crowd)).await.unwrap().end.unwrap();
    assert_eq!((end.cause(), end.limit), (Cause::PidsLimit, Some(64)), "{end:?}");

    let end = live.run("disk", shell("head -c 2G /dev/zero > /tmp/f")).await.unwrap().end.unwrap();
    assert_eq!((end.cause(), end.limit), (Cause::DiskLimit, Some(64 << 20)), "{end:?}");
    live.run("clean", shell("rm /tmp/f")).await.unwrap();

    let result = live.run("output", program("yes")).await.unwrap();
    let end = result.end.unwrap();
    assert_eq!((end.cause(), end.limit), (Cause::OutputLimit, Some(1 << 20)), "{end:?}");
    assert!(end.stdout_total_bytes > 1 << 20);
    assert_eq!(live.run("after", program("true")).await.unwrap().end.unwrap().exit_code, Some(0));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn m4_a_fork_bomb_leaves_the_agent_answering_and_the_next_command_working() {
    let live = Live::start();
    live.claim("a", v1::Limits { pids: Some(128), ..Default::default() }).await;
    let bomb = within(shell("bash -c ':(){ :|:& };:'; sleep 1"), Duration::from_secs(3));
    let end = live.run("bomb", bomb).await.unwrap().end.unwrap();
    eprintln!("{end:?}");
    let started = Instant::now();
    live.agent.sandboxes_info(v1::SandboxesInfoRequest {}).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
    let next = live.run("next", within(program("true"), Duration::from_secs(5))).await.unwrap();
    assert_eq!(next.end.unwrap().exit_code, Some(0));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn h9_a_started_command_takes_input_and_streams_its_output_with_the_end_last() {
    let live = Live::start();
    live.claim("a", v1::Limits::default()).await;
    let id = || ("a".to_owned(), "cat".to_owned());
    let (sandbox_id, exec_id) = id();
    let command = Some(program("cat"));
    let request = v1::ExecStartRequest { sandbox_id, exec_id, command, stdin: true };
    let started = live.agent.exec_start(request.clone()).await.unwrap();
    assert!(started.pid > 0 && started.started);
    assert!(!live.agent.exec_start(request).await.unwrap().started);
    for (offset, data) in [(0, "x\n"), (0, "x\ny"), (3, "\n")] {
        let (sandbox_id, exec_id) = id();
        let data = Bytes::from_static(data.as_bytes());
        let eof = offset == 3;
        let write = v1::ExecWriteStdinRequest { sandbox_id, exec_id, offset, data, eof };
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
    let Some(Event::End(end)) = events.last().unwrap().as_ref().unwrap().event else { panic!() };
    assert_eq!(end.exit_code, Some(0));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn o9_a_reader_gets_every_byte_of_more_than_a_window() {
    let live = Live::start();
    live.claim("a", v1::Limits::default()).await;
    let id = || ("a".to_owned(), "big".to_owned());
    let (sandbox_id, exec_id) = id();
    let command = Some(shell("head -c 100000000 /dev/zero | tr '\\0' x"));
    let request = v1::ExecStartRequest { sandbox_id, exec_id, command, stdin: false };
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
    let live = Live::start();
    live.claim("a", v1::Limits::default()).await;
    let (sandbox_id, exec_id) = ("a".to_owned(), "big".to_owned());
    let command = Some(shell("head -c 200000000 /dev/zero"));
    let request = v1::ExecStartRequest { sandbox_id, exec_id, command, stdin: false };
    live.agent.exec_start(request).await.unwrap();
    let exec = live.agent.sandbox("a").unwrap().execs().find("big").unwrap();
    let result = tokio::time::timeout(Duration::from_secs(30), exec.result()).await.unwrap();
    let end = result.unwrap().end.unwrap();
    assert_eq!((end.exit_code, end.stdout_total_bytes), (Some(0), 200_000_000));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn t4_a_signal_reaches_every_process_and_cancel_ends_them() {
    let live = Live::start();
    live.claim("a", v1::Limits::default()).await;
    for (exec_id, signal, cancel) in [("signal", 15, false), ("cancel", 0, true)] {
        let line = "sleep 71 & sleep 72 | cat";
        let running = tokio::spawn({
            let agent = live.agent.clone();
            let request = v1::ExecRunRequest {
                sandbox_id: "a".to_owned(),
                exec_id: exec_id.to_owned(),
                command: Some(shell(line)),
                ..Default::default()
            };
            async move { agent.exec_run(request).await }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (sandbox_id, exec_id) = ("a".to_owned(), exec_id.to_owned());
        let request = v1::ExecSignalRequest { sandbox_id, exec_id, signal, cancel };
        assert!(live.agent.exec_signal(request.clone()).await.unwrap().delivered);
        let end = running.await.unwrap().unwrap().end.unwrap();
        let expected = if cancel { Cause::Canceled } else { Cause::Signaled };
        assert_eq!(end.cause(), expected);
        assert!(!live.agent.exec_signal(request).await.unwrap().delivered);
        let left = live.run(&format!("{signal}"), shell("ps -ef | grep -c '[s]leep'")).await;
        assert_eq!(left.unwrap().stdout, "0\n");
    }
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn h2_every_waiting_call_hears_of_a_sandbox_that_is_lost() {
    let live = Live::start();
    let sandbox = live.claim("a", v1::Limits::default()).await;
    let waiting = tokio::spawn({
        let agent = live.agent.clone();
        let request = v1::ExecRunRequest {
            sandbox_id: "a".to_owned(),
            exec_id: "wait".to_owned(),
            command: Some(shell("sleep 60")),
            ..Default::default()
        };
        async move { agent.exec_run(request).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let init = sandboxd_linux::pidfd::open(sandbox.init_pid).unwrap();
    sandboxd_linux::pidfd::send_signal(&init, 9).unwrap();
    let error = tokio::time::timeout(Duration::from_secs(1), waiting).await.unwrap().unwrap();
    let error = error.unwrap_err();
    assert_eq!((error.code, error.may_have_run), (ErrorCode::SandboxLost, true), "{error}");
    let later = live.run("later", program("true")).await.unwrap_err();
    assert_eq!((later.code, later.may_have_run), (ErrorCode::SandboxLost, false));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn l6_a_released_sandbox_is_gone_and_a_second_release_is_no_error() {
    let live = Live::start();
    live.claim("a", v1::Limits::default()).await;
    let release = || v1::SandboxesReleaseRequest { sandbox_id: "a".to_owned() };
    assert!(live.agent.sandboxes_release(release()).await.unwrap().released);
    assert!(!live.agent.sandboxes_release(release()).await.unwrap().released);
    let error = live.run("1", program("true")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SandboxClosed);
    live.end().await;
}
