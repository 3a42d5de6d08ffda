//! Commands that run, and commands that cannot start.

use std::time::Instant;

use bytes::Bytes;
use sandboxd_proto::v1::Cause;
use sandboxd_proto::{ErrorCode, v1};

use super::{Live, program, shell};
use crate::call::Answer;

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn a_command_runs_and_its_whole_result_comes_back() {
    let live = Live::start().await;
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
    let live = Live::start().await;
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
async fn t10_every_status_is_its_own() {
    let live = Live::start().await;
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
    for task in tasks {
        task.await.unwrap();
    }
    let zombies = live.run("z", shell("ps -eo stat | grep -c '^Z'")).await.unwrap();
    assert_eq!(zombies.stdout, "0\n");
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn a_line_of_a_megabyte_runs_and_so_does_a_full_environment() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let line = format!("x={}; echo ${{#x}}", "y".repeat(1 << 20));
    assert_eq!(live.run("line", shell(&line)).await.unwrap().stdout, "1048576\n");
    let value = Bytes::from("v".repeat(100_000));
    let name = Bytes::from_static(b"BIG");
    let env = vec![v1::ExecEnvVar { name, value }];
    let command = v1::Command { env, ..shell("echo ${#BIG}") };
    assert_eq!(live.run("env", command).await.unwrap().stdout, "100000\n");
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn input_arrives_whole_and_a_program_that_ignores_it_is_not_held_up() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let run = |exec_id: &str, line: &str, length: usize| {
        live.agent.exec_run(v1::ExecRunRequest {
            sandbox_id: "a".to_owned(),
            exec_id: exec_id.to_owned(),
            command: Some(shell(line)),
            stdin: Some(vec![b'x'; length].into()),
            ..Default::default()
        })
    };
    for length in [0, 1, 65_535, 65_536, 65_537, 4 << 20] {
        let result = run(&length.to_string(), "wc -c", length).await.unwrap();
        assert_eq!(result.stdout, format!("{length}\n"));
    }
    let ignored = run("ignored", "exit 4", 4 << 20).await.unwrap();
    assert_eq!(ignored.end.unwrap().exit_code, Some(4));
    let half = run("half", "head -c 100000 | wc -c; sleep 0.2; exit 5", 4 << 20).await.unwrap();
    assert_eq!((half.end.unwrap().exit_code, &half.stdout[..]), (Some(5), &b"100000\n"[..]));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn o10_long_output_keeps_its_head_and_tail_and_says_so() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let request = v1::ExecRunRequest {
        sandbox_id: "a".to_owned(),
        exec_id: "seq".to_owned(),
        command: Some(shell("seq 1 1000000; echo e >&2")),
        max_output_bytes: Some(65_536),
        ..Default::default()
    };
    let result = live.agent.exec_run(request).await.unwrap();
    assert_eq!(result.end.unwrap().stdout_total_bytes, 6_888_896);
    assert_eq!((result.stdout.len(), result.stdout_head_bytes), (65_536, Some(32_768)));
    assert!(result.stdout.starts_with(b"1\n2\n") && result.stdout.ends_with(b"\n1000000\n"));
    assert_eq!((&result.stderr[..], result.stderr_head_bytes), (&b"e\n"[..], None));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn calls_for_a_sandbox_that_is_not_ready_wait_in_their_order() {
    let live = Live::start().await;
    let claim = v1::SandboxesClaimRequest {
        sandbox_id: "a".to_owned(),
        template: "host".to_owned(),
        ..Default::default()
    };
    let mut waiting = Vec::new();
    let claims = live.agent.clone();
    let first = tokio::spawn({
        let claim = claim.clone();
        async move { claims.sandboxes_claim(claim).await }
    });
    for number in 0..8 {
        let request = v1::ExecRunRequest {
            sandbox_id: "a".to_owned(),
            exec_id: number.to_string(),
            command: Some(shell(&format!("echo {number} >> /tmp/order"))),
            ..Default::default()
        };
        let agent = live.agent.clone();
        waiting.push(tokio::spawn(async move { agent.exec_run(request).await }));
    }
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap().end.unwrap().exit_code, Some(0));
    }
    let again = live.agent.sandboxes_claim(claim.clone()).await.unwrap().sandbox.unwrap();
    let first = first.await.unwrap().unwrap().sandbox.unwrap();
    assert_eq!((first.init_pid, first.startup_ns), (again.init_pid, again.startup_ns));
    let other = v1::SandboxesClaimRequest { user: "nobody".to_owned(), ..claim };
    let conflict = live.agent.sandboxes_claim(other).await.unwrap_err();
    assert_eq!(conflict.code, ErrorCode::InvalidArgument);
    let started = live.agent.exec_list(v1::ExecListRequest { sandbox_id: "a".to_owned() }).await;
    let ids: Vec<_> = started.unwrap().execs.into_iter().map(|exec| exec.exec_id).collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    live.end().await;
}

#[tokio::test]
#[ignore = "prints times; needs root and a built sandboxd-init"]
async fn times_of_short_commands() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let mut times = Vec::new();
    for number in 0..1_000 {
        let started = Instant::now();
        live.run(&number.to_string(), program("true")).await.unwrap();
        times.push(started.elapsed());
    }
    times.sort_unstable();
    eprintln!("p50 {:?}, p99 {:?}", times[500], times[990]);
    live.end().await;
}
