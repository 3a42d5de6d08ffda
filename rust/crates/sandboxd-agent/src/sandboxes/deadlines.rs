//! The clocks of all sandboxes: one task, one timer.
//!
//! Both clocks start at the claim. A running exec is activity, and so is a call about one or about
//! files; reading status is not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;

use super::sandbox::Sandbox;
use crate::agent::Host;
use crate::lock::lock;

/// How often a sandbox is looked at, whatever its clocks say: results of execs are forgotten then.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// What a look at a sandbox leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Expired,
    Idle,
    Again(Instant),
}

/// Decides about a sandbox. `idle_since` is `None` while an exec runs.
fn look(
    now: Instant,
    expires: Instant,
    idle_timeout: Option<Duration>,
    idle_since: Option<Instant>,
) -> Look {
    if now >= expires {
        return Look::Expired;
    }
    let mut next = expires.min(now + LOOK_EVERY);
    if let Some(timeout) = idle_timeout {
        // The end of an exec that runs now starts the clock, so nothing can be due before that.
        let idle_ends = idle_since.unwrap_or(now).checked_add(timeout);
        match idle_ends {
            Some(ends) if now >= ends => return Look::Idle,
            Some(ends) => next = next.min(ends),
            None => {}
        }
    }
    Look::Again(next)
}

/// Looks at every sandbox that arrives, and again when its time has come.
pub(crate) async fn watch(host: Arc<Host>, mut arrivals: UnboundedReceiver<Arc<Sandbox>>) {
    let mut queue: BinaryHeap<Reverse<Due>> = BinaryHeap::new();
    loop {
        let next = queue.peek().map(|Reverse(due)| due.at);
        let wait = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            arrival = arrivals.recv() => {
                let Some(sandbox) = arrival else { return };
                queue.extend(due(&sandbox, Instant::now()).map(Reverse));
            }
            () = wait => {
                let now = Instant::now();
                lock(&host.table).prune(now);
                while queue.peek().is_some_and(|Reverse(due)| due.at <= now) {
                    let sandbox = queue.pop().and_then(|Reverse(due)| due.sandbox.upgrade());
                    queue.extend(sandbox.and_then(|sandbox| due(&sandbox, now)).map(Reverse));
                }
            }
        }
    }
}

/// Acts on one sandbox. Returns when to look at it again, unless that is never.
fn due(sandbox: &Arc<Sandbox>, now: Instant) -> Option<Due> {
    if sandbox.ended_with().is_some() {
        return None;
    }
    drop(sandbox.execs().prune(now));
    let idle_since = sandbox.execs().idle_since();
    match look(now, sandbox.expires(), sandbox.spec.idle_timeout, idle_since) {
        Look::Again(at) => return Some(Due { at, sandbox: Arc::downgrade(sandbox) }),
        Look::Expired => sandbox.end(sandbox.lost_error("ttl")),
        Look::Idle => sandbox.end(sandbox.lost_error("idle_timeout")),
    };
    None
}

#[derive(Debug)]
struct Due {
    at: Instant,
    sandbox: Weak<Sandbox>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn l11_the_lifetime_ends_whatever_runs() {
        let claimed = Instant::now();
        let expires = claimed + 60 * SECOND;
        assert_eq!(look(claimed + 60 * SECOND, expires, None, None), Look::Expired);
        assert_eq!(look(claimed + 59 * SECOND, expires, None, None), Look::Again(expires));
    }

    #[test]
    fn l9_a_running_exec_is_activity_and_the_idle_clock_starts_at_its_end() {
        let start = Instant::now();
        let expires = start + 3600 * SECOND;
        let idle = Some(2 * SECOND);
        let running = look(start + 10 * SECOND, expires, idle, None);
        assert_eq!(running, Look::Again(start + 12 * SECOND));
        let ended = Some(start + 11 * SECOND);
        assert_eq!(
            look(start + 12 * SECOND, expires, idle, ended),
            Look::Again(start + 13 * SECOND)
        );
        assert_eq!(look(start + 13 * SECOND, expires, idle, ended), Look::Idle);
    }

    #[test]
    fn without_any_clock_near_it_is_looked_at_again_all_the_same() {
        let now = Instant::now();
        let far = now + 100_000 * SECOND;
        assert_eq!(look(now, far, None, Some(now)), Look::Again(now + LOOK_EVERY));
        assert_eq!(look(now, far, Some(Duration::MAX), Some(now)), Look::Again(now + LOOK_EVERY));
    }
}
