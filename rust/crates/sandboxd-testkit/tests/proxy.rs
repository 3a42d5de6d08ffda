//! The proxy does what it is told: a fault that does not happen would make every test pass.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sandboxd_testkit::{Counts, Order, Plan, Proxy};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

const SHORT: Duration = Duration::from_millis(200);

struct World {
    proxy: Proxy,
    agent: UnixListener,
    path: PathBuf,
    _folder: TempDir,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let [path, agent] = ["proxy.sock", "agent.sock"].map(|name| folder.path().join(name));
    let listener = UnixListener::bind(&agent).unwrap();
    let proxy = Proxy::listen(path.clone(), agent).unwrap();
    World { proxy, agent: listener, path, _folder: folder }
}

impl World {
    async fn plan(&mut self, plan: Plan) {
        self.proxy.obey(Order::Plans { plans: vec![plan] }).await.unwrap();
    }

    async fn pair(&self) -> (UnixStream, UnixStream) {
        let client = UnixStream::connect(&self.path).await.unwrap();
        (client, self.agent.accept().await.unwrap().0)
    }

    async fn counts(&mut self) -> Counts {
        self.proxy.obey(Order::Count).await.unwrap()
    }
}

/// Everything until the end of the stream, however it ends.
async fn rest(stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut bytes)).await.unwrap();
    bytes
}

#[tokio::test]
async fn without_a_plan_bytes_and_ends_pass_unchanged() {
    let mut world = world();
    let (mut client, mut agent) = world.pair().await;
    let data: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let expected = data.clone();
    let writing = tokio::spawn(async move {
        client.write_all(&data).await.unwrap();
        client
    });
    let mut seen = vec![0; expected.len()];
    agent.read_exact(&mut seen).await.unwrap();
    assert!(seen == expected);
    drop(agent);
    assert_eq!(rest(&mut writing.await.unwrap()).await, b"");
    assert_eq!(world.counts().await.cuts, 0);
}

#[tokio::test]
async fn a_cut_comes_after_exactly_so_many_bytes() {
    for bytes in [0, 1, 7, 100] {
        let mut world = world();
        world.plan(Plan { cut_to_agent: Some(bytes), ..Plan::default() }).await;
        let (mut client, mut agent) = world.pair().await;
        let _ = client.write_all(&[5; 1000]).await;
        assert_eq!(rest(&mut agent).await.len() as u64, bytes);
        assert_eq!(rest(&mut client).await, b"");

        world.plan(Plan { cut_to_client: Some(bytes), ..Plan::default() }).await;
        let (mut client, mut agent) = world.pair().await;
        let _ = agent.write_all(&[6; 1000]).await;
        assert_eq!(rest(&mut client).await.len() as u64, bytes);
        assert_eq!(world.counts().await.cuts, 2);
    }
}

#[tokio::test]
async fn a_mute_agent_is_listened_to_and_not_heard_until_the_cut() {
    let mut world = world();
    let plan = Plan { mute_to_client: Some(3), cut_age: Some(0.3), ..Plan::default() };
    world.plan(plan).await;
    let (mut client, mut agent) = world.pair().await;
    let began = Instant::now();
    agent.write_all(b"abcdef").await.unwrap();
    assert_eq!(rest(&mut client).await, b"abc");
    assert!(began.elapsed() >= Duration::from_millis(290));
}

#[tokio::test]
async fn late_bytes_arrive_on_the_old_connection_after_those_of_the_newer_one() {
    let mut world = world();
    world.plan(Plan { late_after: Some(2), late_by: 0.3, ..Plan::default() }).await;
    let (mut old, mut older) = world.pair().await;
    old.write_all(b"helloworld").await.unwrap();
    assert_eq!(rest(&mut old).await, b"");
    let (mut client, mut newer) = world.pair().await;
    client.write_all(b"new").await.unwrap();
    let mut seen = [0; 3];
    newer.read_exact(&mut seen).await.unwrap();
    assert_eq!(&seen, b"new");
    older.read_exact(&mut seen[..2]).await.unwrap();
    assert!(timeout(SHORT, older.read_exact(&mut [0])).await.is_err());
    assert_eq!(rest(&mut older).await, b"lloworld");
    assert_eq!(world.counts().await.late, 1);
}

#[tokio::test]
async fn a_stall_delivers_nothing_and_loses_nothing() {
    let mut world = world();
    let (mut client, mut agent) = world.pair().await;
    world.proxy.obey(Order::Stall { on: true }).await.unwrap();
    client.write_all(b"later").await.unwrap();
    let mut seen = [0; 5];
    assert!(timeout(SHORT, agent.read_exact(&mut seen)).await.is_err());
    world.proxy.obey(Order::Stall { on: false }).await.unwrap();
    agent.read_exact(&mut seen).await.unwrap();
    assert_eq!(&seen, b"later");
}

#[tokio::test]
async fn slow_connections_are_slow_and_whole() {
    for plan in [
        Plan { delay: 0.3, ..Plan::default() },
        Plan { bytes_per_second: Some(100_000), ..Plan::default() },
    ] {
        let mut world = world();
        world.plan(plan).await;
        let (mut client, mut agent) = world.pair().await;
        let began = Instant::now();
        let writing = tokio::spawn(async move {
            client.write_all(&[1; 40_000]).await.unwrap();
            client
        });
        agent.read_exact(&mut [0; 40_000]).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(290), "{:?}", began.elapsed());
        drop(writing.await.unwrap());
    }
}

#[tokio::test]
async fn a_cut_on_order_ends_the_living_and_refusing_keeps_new_ones_out() {
    let mut world = world();
    let (mut client, mut agent) = world.pair().await;
    // Both ends are up before the order comes.
    client.write_all(b"x").await.unwrap();
    agent.read_exact(&mut [0]).await.unwrap();
    world.proxy.obey(Order::Refuse { on: true }).await.unwrap();
    assert!(UnixStream::connect(&world.path).await.is_err());
    world.proxy.obey(Order::Cut).await.unwrap();
    assert_eq!(rest(&mut client).await, b"");
    world.proxy.obey(Order::Refuse { on: false }).await.unwrap();
    world.pair().await;
    let counts = world.counts().await;
    assert_eq!((counts.connections, counts.cuts), (2, 1));
}
