//! Sandboxes that were made ahead of their claim.

use sandboxd_proto::{ErrorCode, v1};

use super::{Live, shell};

const MIB: u64 = 1 << 20;

impl Live {
    async fn warm(&self, id: &str) -> v1::Sandbox {
        let request =
            v1::SandboxesWarmRequest { sandbox_id: id.to_owned(), template: "host".to_owned() };
        self.agent.sandboxes_warm(request).await.unwrap().sandbox.unwrap()
    }

    async fn listed(&self, include_warm: bool) -> Vec<String> {
        let request = v1::SandboxesListRequest { include_warm, ..Default::default() };
        let listed = self.agent.sandboxes_list(request).await.unwrap().sandboxes;
        listed.into_iter().map(|sandbox| sandbox.sandbox_id).collect()
    }

    async fn output(&self, line: &str) -> String {
        let exec_id = format!("of-{}-bytes", line.len());
        let reply = self.run(&exec_id, shell(line)).await.unwrap();
        String::from_utf8(reply.stdout.to_vec()).unwrap()
    }
}

#[tokio::test]
#[ignore = "needs root and sandboxd-init"]
async fn p4_a_warm_sandbox_becomes_the_claims_with_all_that_it_asks_for() {
    let live = Live::start().await;
    let warm = live.warm("w").await;
    assert_eq!(warm.state(), v1::SandboxState::Warm);
    assert_eq!(warm.expires_unix_ns, 0, "no clock runs");
    assert!(live.listed(false).await.is_empty());
    assert_eq!(live.listed(true).await, ["w"]);
    let refused = live.agent.exec_list(v1::ExecListRequest { sandbox_id: "w".to_owned() }).await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::SandboxNotFound);

    let variable = v1::EnvVar { name: "WHO".into(), value: "claim".into() };
    let request = v1::SandboxesClaimRequest {
        sandbox_id: "a".to_owned(),
        template: "host".to_owned(),
        limits: Some(v1::Limits {
            memory_bytes: Some(64 * MIB),
            pids: Some(32),
            output_bytes: Some(1_000_000),
            ..Default::default()
        }),
        ttl_ns: Some(60_000_000_000),
        env: vec![variable],
        cwd: "/tmp".into(),
        user: "65534".to_owned(),
        labels: [("run".to_owned(), "r1".to_owned())].into(),
        ..Default::default()
    };
    let claimed = live.agent.sandboxes_claim(request).await.unwrap().sandbox.unwrap();
    assert_eq!(claimed.launch(), v1::Launch::Warm, "{:?}", claimed.cold_because);
    assert_eq!((claimed.sandbox_id.as_str(), claimed.warmed_as.as_str()), ("a", "w"));
    assert_eq!(claimed.init_pid, warm.init_pid, "the very same");
    assert_eq!(claimed.labels["run"], "r1");
    assert!(claimed.created_unix_ns > warm.created_unix_ns);
    assert_eq!(claimed.expires_unix_ns, claimed.created_unix_ns + 60_000_000_000);
    assert_eq!(live.output("echo $WHO; pwd; id -u").await, "claim\n/tmp\n65534\n");
    // Half of the memory, as a cold one would have.
    let size = live.output("df --block-size=1 --output=size / | tail -n 1").await;
    assert_eq!(size.trim().parse::<u64>().unwrap(), 32 * MIB);
    let line = "head -c 100000000 /dev/zero | tail -c 100000000 >/dev/null";
    let greedy = live.run("greedy", shell(line)).await.unwrap().end.unwrap();
    assert_eq!(greedy.cause(), v1::Cause::MemoryLimit);
    assert!(live.listed(true).await.iter().eq(["a"]));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and sandboxd-init"]
async fn p6_one_that_was_killed_while_it_waited_is_not_handed_out() {
    let live = Live::start().await;
    let first = live.warm("w1").await;
    let second = live.warm("w2").await;
    let pid = rustix::process::Pid::from_raw(first.init_pid.try_into().unwrap()).unwrap();
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    rustix::process::pidfd_send_signal(&process, rustix::process::Signal::KILL).unwrap();
    // Without letting the runtime run: the agent has not been told when the claim comes.
    let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut ended, None).unwrap();
    let claimed = live.claim("a", v1::Limits::default()).await;
    assert_eq!(claimed.warmed_as, "w2");
    assert_eq!(claimed.init_pid, second.init_pid);
    assert_eq!(live.output("echo lives").await, "lives\n");
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and sandboxd-init"]
async fn a_claim_that_only_a_new_sandbox_can_serve_is_cold_and_says_why() {
    let live = Live::start().await;
    live.warm("w").await;
    let share = v1::Limits { cpu_millis: Some(500), ..Default::default() };
    let cold = live.claim("a", share).await;
    assert_eq!(cold.launch(), v1::Launch::Cold);
    assert_eq!(cold.cold_because, "limits.cpu_millis");
    let warm = live.claim("b", v1::Limits::default()).await;
    assert_eq!((warm.launch(), warm.warmed_as.as_str()), (v1::Launch::Warm, "w"));
    live.end().await;
}

#[tokio::test]
#[ignore = "needs root and sandboxd-init"]
async fn a_waiting_one_can_be_released_and_a_repeated_order_finds_it() {
    let live = Live::start().await;
    let (one, other) = tokio::join!(live.warm("w"), live.warm("w"));
    assert_eq!(one.init_pid, other.init_pid);
    let release = v1::SandboxesReleaseRequest { sandbox_id: "w".to_owned() };
    assert!(live.agent.sandboxes_release(release).await.unwrap().released);
    assert!(live.listed(true).await.is_empty());
    let cold = live.claim("a", v1::Limits::default()).await;
    assert_eq!(cold.launch(), v1::Launch::Cold);
    live.end().await;
}
