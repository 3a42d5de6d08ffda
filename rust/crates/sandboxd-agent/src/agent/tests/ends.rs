//! Deadlines, signals, and sandboxes that end.

use std::time::{Duration, Instant};

use sandboxd_proto::v1::Cause;
use sandboxd_proto::{ErrorCode, v1};

use super::{Live, program, shell, within};

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn t8_a_deadline_ends_the_whole_tree_and_keeps_what_it_said() {
    let live = Live::start().await;
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
async fn t4_a_signal_reaches_every_process_and_cancel_ends_them() {
    let live = Live::start().await;
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
    let live = Live::start().await;
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
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let release = || v1::SandboxesReleaseRequest { sandbox_id: "a".to_owned() };
    assert!(live.agent.sandboxes_release(release()).await.unwrap().released);
    assert!(!live.agent.sandboxes_release(release()).await.unwrap().released);
    let error = live.run("1", program("true")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SandboxClosed);
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn h2_the_end_of_the_launcher_loses_its_sandboxes_and_the_next_ones_get_another() {
    let live = Live::start().await;
    let sandbox = live.claim("a", v1::Limits::default()).await;
    live.claim("b", v1::Limits::default()).await;
    let waiting = tokio::spawn({
        let agent = live.agent.clone();
        let request = v1::ExecRunRequest {
            sandbox_id: "b".to_owned(),
            exec_id: "wait".to_owned(),
            command: Some(shell("sleep 60")),
            ..Default::default()
        };
        async move { agent.exec_run(request).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    kill_launcher_of(&sandbox);
    let error = tokio::time::timeout(Duration::from_secs(2), waiting).await.unwrap().unwrap();
    assert_eq!(error.unwrap_err().code, ErrorCode::SandboxLost);
    let later = live.run("later", program("true")).await.unwrap_err();
    assert_eq!(later.code, ErrorCode::SandboxLost);
    for number in 0..5 {
        let id = format!("c{number}");
        let again = live.claim(&id, v1::Limits::default()).await;
        assert_eq!(again.state(), v1::SandboxState::Ready);
        kill_launcher_of(&again);
        let agent = live.agent.clone();
        let lost = async move {
            while agent.sandbox(&id).is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(2), lost).await.unwrap();
    }
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn l9_lifetime_and_idle_time_end_a_sandbox_but_not_under_a_running_command() {
    let live = Live::start().await;
    let claim = |id: &str, ttl: Option<u64>, idle: Option<u64>| {
        let milliseconds = |value: u64| value * 1_000_000;
        live.agent.sandboxes_claim(v1::SandboxesClaimRequest {
            sandbox_id: id.to_owned(),
            template: "host".to_owned(),
            ttl_ns: ttl.map(milliseconds),
            idle_timeout_ns: idle.map(milliseconds),
            ..Default::default()
        })
    };
    claim("a", None, Some(500)).await.unwrap();
    claim("b", Some(800), None).await.unwrap();
    let busy = live.run("busy", shell("sleep 1.2")).await.unwrap();
    assert_eq!(busy.end.unwrap().exit_code, Some(0));
    let b = live.agent.sandbox("b").map(|_| ()).unwrap_err();
    assert_eq!((b.code, b.reason.as_str()), (ErrorCode::SandboxLost, "ttl"));
    live.run("soon", program("true")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let idle = live.run("late", program("true")).await.unwrap_err();
    assert_eq!((idle.code, idle.reason.as_str()), (ErrorCode::SandboxLost, "idle_timeout"));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn l6_releasing_a_sandbox_that_starts_leaves_nothing_either() {
    let live = Live::start().await;
    for number in 0..20 {
        let sandbox_id = format!("s{number}");
        let request = v1::SandboxesClaimRequest {
            sandbox_id: sandbox_id.clone(),
            template: "host".to_owned(),
            ..Default::default()
        };
        let agent = live.agent.clone();
        let claim = tokio::spawn(async move { agent.sandboxes_claim(request).await });
        tokio::time::sleep(Duration::from_micros(number * 200)).await;
        let release = v1::SandboxesReleaseRequest { sandbox_id };
        let released = live.agent.sandboxes_release(release).await.unwrap().released;
        if let Err(error) = claim.await.unwrap() {
            assert_eq!(error.code, ErrorCode::SandboxClosed, "{error}");
        }
        assert!(released);
    }
    let none = v1::SandboxesListRequest::default();
    assert!(live.agent.sandboxes_list(none).await.unwrap().sandboxes.is_empty());
    live.end().await;
}

fn kill_launcher_of(sandbox: &v1::Sandbox) {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", sandbox.init_pid)).unwrap();
    let parent: u32 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    assert_ne!(parent, std::process::id(), "the launcher is between");
    let launcher = sandboxd_linux::pidfd::open(parent).unwrap();
    sandboxd_linux::pidfd::send_signal(&launcher, 9).unwrap();
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn l1_a_burst_is_served_in_turns_and_whoever_waits_for_a_turn_can_be_released() {
    let live = Live::start().await;
    let claims: Vec<_> = (0..400)
        .map(|number| {
            let agent = live.agent.clone();
            let request = v1::SandboxesClaimRequest {
                sandbox_id: format!("s{number}"),
                template: "host".to_owned(),
                ..Default::default()
            };
            tokio::spawn(async move { agent.sandboxes_claim(request).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let release = v1::SandboxesReleaseRequest { sandbox_id: "s399".to_owned() };
    let patience = Duration::from_secs(1);
    let released = tokio::time::timeout(patience, live.agent.sandboxes_release(release)).await;
    assert!(released.unwrap().unwrap().released);
    for (number, claim) in claims.into_iter().enumerate() {
        match claim.await.unwrap() {
            Ok(_) => assert_ne!(number, 399),
            Err(error) => assert_eq!((number, error.code), (399, ErrorCode::SandboxClosed)),
        }
    }
    live.end().await;
}
