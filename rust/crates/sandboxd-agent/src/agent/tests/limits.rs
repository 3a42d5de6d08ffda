//! Limits of a sandbox, met on purpose.

use std::time::{Duration, Instant};

use sandboxd_proto::v1::{self, Cause};

use super::{Live, program, shell, within};

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn m6_a_limit_that_was_met_is_the_cause_with_value_and_peak() {
    let live = Live::start().await;
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
async fn m6_a_limit_that_another_program_met_is_not_the_cause() {
    let live = Live::start().await;
    let limits = v1::Limits {
        memory_bytes: Some(128 << 20),
        disk_bytes: Some(16 << 20),
        ..Default::default()
    };
    live.claim("a", limits).await;
    let hog = "python3 -c 'x = bytearray(1 << 30)'";
    let other = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        live.run("hog", shell(hog)).await.unwrap().end.unwrap()
    };
    let innocent = live.run("beside", shell("sleep 3; exit 3"));
    let (end, other) = tokio::join!(innocent, other);
    let end = end.unwrap().end.unwrap();
    assert_eq!(other.cause(), Cause::MemoryLimit, "{other:?}");
    assert_eq!((end.cause(), end.exit_code), (Cause::Exited, Some(3)), "{end:?}");

    let background = format!("(sleep 1; {hog}; sleep 5) >/dev/null 2>&1 & exit 0");
    live.run("leave", shell(&background)).await.unwrap();
    let end = live.run("after", shell("sleep 3; exit 3")).await.unwrap().end.unwrap();
    assert_eq!((end.cause(), end.exit_code), (Cause::Exited, Some(3)), "{end:?}");

    let fill = live.run("fill", shell("head -c 1G /dev/zero > /tmp/f")).await.unwrap();
    assert_eq!(fill.end.unwrap().cause(), Cause::DiskLimit);
    let end = live.run("full", shell("exit 3")).await.unwrap().end.unwrap();
    assert_eq!((end.cause(), end.exit_code), (Cause::Exited, Some(3)), "{end:?}");
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn m4_a_fork_bomb_leaves_the_agent_answering_and_the_next_command_working() {
    let live = Live::start().await;
    live.claim("a", v1::Limits { pids: Some(128), ..Default::default() }).await;
    let bomb = within(shell("bash -c ':(){ :|:& };:'; sleep 1"), Duration::from_secs(3));
    live.run("bomb", bomb).await.unwrap();
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
async fn m4_background_processes_that_leave_no_room_give_way_to_the_next_command() {
    let live = Live::start().await;
    live.claim("a", v1::Limits { pids: Some(32), ..Default::default() }).await;
    let crowd = "for i in $(seq 28); do setsid sleep 300 & done; exit 0";
    let end = live.run("crowd", shell(crowd)).await.unwrap().end.unwrap();
    assert_eq!(end.cause(), Cause::Exited, "{end:?}");
    let fill = "sleep 300 & sleep 300 & exit 0";
    for number in 0..4 {
        let result = live.run(&format!("fill{number}"), shell(fill)).await.unwrap();
        assert!(result.end.unwrap().exit_code.is_some());
    }
    let next = live.run("next", shell("true; true; exit 6")).await.unwrap().end.unwrap();
    assert_eq!((next.cause(), next.exit_code), (Cause::Exited, Some(6)), "{next:?}");
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and a built sandboxd-init"]
async fn m4_killing_everything_inside_harms_only_that() {
    let live = Live::start().await;
    live.claim("a", v1::Limits::default()).await;
    let end = live.run("kill", shell("kill -9 -1; echo alive")).await.unwrap().end.unwrap();
    assert!(end.exit_code == Some(0) || end.signal == Some(9), "{end:?}");
    let next = live.run("next", program("true")).await.unwrap().end.unwrap();
    assert_eq!(next.exit_code, Some(0));
    live.end().await;
}
