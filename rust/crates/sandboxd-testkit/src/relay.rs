//! One connection: its bytes in both directions, and how the plan ends it.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::plan::{Plan, seconds};

/// Bytes taken at once.
const CHUNK: usize = 64 * 1024;

/// Bytes taken at once where speed is limited, so that the pauses between them are short.
const SLOW_CHUNK: usize = 4 * 1024;

/// A client that says nothing for so long pauses.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the agent has for late bytes before the old connection is closed.
const LATE_LIFE: Duration = Duration::from_millis(200);

/// How a connection ended.
pub(crate) enum Ended {
    /// One of the two sides left.
    Left,
    Cut,
    /// The client was cut, and part of what it said is still under way.
    Late(Late),
}

/// What a client said that was cut, and the connection on which the agent will hear it.
pub(crate) struct Late {
    held: Vec<u8>,
    agent: OwnedWriteHalf,
}

impl Late {
    pub(crate) async fn deliver(mut self, plan: &Plan) {
        sleep(seconds(plan.late_by)).await;
        if self.agent.write_all(&self.held).await.is_ok() {
            sleep(LATE_LIFE).await;
        }
    }
}

/// Relays `client` as planned. Both connections are closed when it returns.
pub(crate) async fn run(
    client: UnixStream,
    agent: &Path,
    plan: &Plan,
    stalled: watch::Receiver<bool>,
) -> Ended {
    let fate = async {
        let Ok(agent) = UnixStream::connect(agent).await else { return Ended::Left };
        let (client_reader, client_writer) = client.into_split();
        let (agent_reader, agent_writer) = agent.into_split();
        let to_agent = Direction {
            from: client_reader,
            to: agent_writer,
            cut: plan.cut_to_agent,
            mute: None,
            late: plan.late_after,
            stalled: stalled.clone(),
        };
        let to_client = Direction {
            from: agent_reader,
            to: client_writer,
            cut: plan.cut_to_client,
            mute: plan.mute_to_client,
            late: None,
            stalled,
        };
        tokio::select! {
            ended = to_agent.relay(plan) => ended,
            ended = to_client.relay(plan) => ended,
        }
    };
    match plan.cut_age {
        Some(age) => timeout(seconds(age), fate).await.unwrap_or(Ended::Cut),
        None => fate.await,
    }
}

struct Direction {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    cut: Option<u64>,
    mute: Option<u64>,
    late: Option<u64>,
    stalled: watch::Receiver<bool>,
}

impl Direction {
    async fn relay(mut self, plan: &Plan) -> Ended {
        let mut buffer = vec![0; if plan.bytes_per_second.is_some() { SLOW_CHUNK } else { CHUNK }];
        let mut taken = 0;
        loop {
            if self.late.is_some_and(|late| late <= taken) {
                return self.hold().await;
            }
            let room = match self.cut.into_iter().chain(self.late).min() {
                Some(bytes) if bytes <= taken => return Ended::Cut,
                // What is beyond the cut is not even taken: the other side sees a reset.
                Some(bytes) => usize::try_from(bytes - taken).unwrap_or(CHUNK).min(buffer.len()),
                None => buffer.len(),
            };
            if self.stalled.wait_for(|stalled| !stalled).await.is_err() {
                return Ended::Left;
            }
            let count = match self.from.read(&mut buffer[..room]).await {
                Ok(0) | Err(_) => return Ended::Left,
                Ok(count) => count,
            };
            // What came while it was stalled waits here.
            if self.stalled.wait_for(|stalled| !stalled).await.is_err() {
                return Ended::Left;
            }
            let before = taken;
            taken += count as u64;
            let audible = match self.mute {
                Some(mute) if mute <= before => 0,
                Some(mute) => usize::try_from(mute - before).unwrap_or(CHUNK).min(count),
                None => count,
            };
            if plan.delay > 0.0 {
                sleep(seconds(plan.delay)).await;
            }
            if let Some(speed) = plan.bytes_per_second {
                let speed = u32::try_from(speed.max(1)).unwrap_or(u32::MAX);
                sleep(Duration::from_secs(count as u64) / speed).await;
            }
            if self.to.write_all(&buffer[..audible]).await.is_err() {
                return Ended::Left;
            }
        }
    }

    /// Takes what the client says until it pauses or leaves.
    async fn hold(mut self) -> Ended {
        let mut held = Vec::new();
        // It pauses when it has begun.
        let mut patience = None;
        loop {
            let reading = self.from.read_buf(&mut held);
            let count = match patience {
                None => reading.await,
                Some(pause) => timeout(pause, reading).await.unwrap_or(Ok(0)),
            };
            if !matches!(count, Ok(1..)) {
                return Ended::Late(Late { held, agent: self.to });
            }
            patience = Some(PAUSE);
        }
    }
}
