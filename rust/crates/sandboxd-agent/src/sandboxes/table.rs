//! The sandboxes of this agent by id. The lock around this table is what makes a claim atomic.
//!
//! Pure: events and a time come in, answers go out. An id whose sandbox has ended keeps its epitaph
//! for a while, so that a late call learns what happened instead of "not found".

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandboxd_proto::{CallError, v1};

/// How long an ended sandbox is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// How many ended sandboxes are remembered.
const REMEMBERED: usize = 4_096;

/// Which claim an id stands for.
pub(crate) type Fingerprint = u64;

/// What a claim finds under its id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim<S> {
    /// Nothing: the sandbox is entered now.
    New,
    /// The sandbox of this very claim.
    Known(S),
    /// The sandbox of another claim.
    Conflict,
    /// One that has ended.
    Ended(CallError),
    /// As many sandboxes exist as may.
    Full,
}

/// What a call finds under an id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Find<S> {
    Known(S),
    Ended(CallError),
    Unknown,
}

/// What is remembered of an ended sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Epitaph {
    /// For calls that come too late.
    pub(crate) error: CallError,
    /// For lists.
    pub(crate) summary: v1::Sandbox,
}

/// The table. `S` is a cheap handle.
#[derive(Debug)]
pub(crate) struct SandboxTable<S> {
    live: HashMap<Arc<str>, (Fingerprint, S)>,
    ended: HashMap<Arc<str>, Epitaph>,
    /// Oldest first.
    order: VecDeque<(Instant, Arc<str>)>,
    limit: usize,
}

impl<S: Clone> SandboxTable<S> {
    /// A table that lets `limit` sandboxes exist at once.
    pub(crate) fn new(limit: usize) -> Self {
        Self { live: HashMap::new(), ended: HashMap::new(), order: VecDeque::new(), limit }
    }

    /// Enters `sandbox` under `id` unless that is taken.
    pub(crate) fn claim(
        &mut self,
        id: &Arc<str>,
        fingerprint: Fingerprint,
        sandbox: S,
    ) -> Claim<S> {
        match self.live.get(id) {
            Some((known, sandbox)) if *known == fingerprint => {
                return Claim::Known(sandbox.clone());
            }
            Some(_) => return Claim::Conflict,
            None => {}
        }
        if let Some(epitaph) = self.ended.get(id) {
            return Claim::Ended(epitaph.error.clone());
        }
        if self.live.len() >= self.limit {
            return Claim::Full;
        }
        self.live.insert(Arc::clone(id), (fingerprint, sandbox));
        Claim::New
    }

    pub(crate) fn find(&self, id: &str) -> Find<S> {
        match (self.live.get(id), self.ended.get(id)) {
            (Some((_, sandbox)), _) => Find::Known(sandbox.clone()),
            (None, Some(epitaph)) => Find::Ended(epitaph.error.clone()),
            (None, None) => Find::Unknown,
        }
    }

    /// Turns a sandbox into its epitaph. Nothing happens to one that is not there.
    pub(crate) fn end(&mut self, id: &Arc<str>, epitaph: Epitaph, now: Instant) {
        if self.live.remove(id).is_none() {
            return;
        }
        self.ended.insert(Arc::clone(id), epitaph);
        self.order.push_back((now, Arc::clone(id)));
        self.prune(now);
    }

    /// Forgets what has been remembered long enough.
    pub(crate) fn prune(&mut self, now: Instant) {
        while let Some((at, _)) = self.order.front() {
            let expired = now.saturating_duration_since(*at) >= REMEMBERED_FOR;
            if !expired && self.order.len() <= REMEMBERED {
                break;
            }
            if let Some((_, id)) = self.order.pop_front() {
                self.ended.remove(&id);
            }
        }
    }

    /// Sandboxes that have not ended.
    pub(crate) fn live(&self) -> impl Iterator<Item = &S> {
        self.live.values().map(|(_, sandbox)| sandbox)
    }

    pub(crate) fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Sandboxes that have ended and are remembered.
    pub(crate) fn epitaphs(&self) -> impl Iterator<Item = &Epitaph> {
        self.ended.values()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sandboxd_proto::ErrorCode;

    use super::*;

    fn id(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    fn epitaph() -> Epitaph {
        let error = CallError::new(ErrorCode::SandboxClosed, "closed");
        Epitaph { error, summary: v1::Sandbox::default() }
    }

    #[test]
    fn r6_the_same_claim_again_gets_the_same_sandbox() {
        let mut table = SandboxTable::new(8);
        assert_eq!(table.claim(&id("a"), 1, "first"), Claim::New);
        assert_eq!(table.claim(&id("a"), 1, "again"), Claim::Known("first"));
        assert_eq!(table.claim(&id("a"), 2, "other"), Claim::Conflict);
        assert_eq!(table.find("a"), Find::Known("first"));
    }

    #[test]
    fn an_ended_sandbox_is_never_made_again_by_a_late_claim() {
        let now = Instant::now();
        let mut table = SandboxTable::new(8);
        table.claim(&id("a"), 1, ());
        table.end(&id("a"), epitaph(), now);
        assert_eq!(table.find("a"), Find::Ended(epitaph().error));
        assert_eq!(table.claim(&id("a"), 1, ()), Claim::Ended(epitaph().error));
        table.prune(now + REMEMBERED_FOR);
        assert_eq!(table.find("a"), Find::Unknown);
    }

    #[test]
    fn ending_what_is_not_there_leaves_no_epitaph() {
        let mut table = SandboxTable::<()>::new(8);
        table.end(&id("a"), epitaph(), Instant::now());
        assert_eq!(table.find("a"), Find::Unknown);
    }

    #[test]
    fn no_more_exist_at_once_than_may() {
        let mut table = SandboxTable::new(1);
        assert_eq!(table.claim(&id("a"), 1, ()), Claim::New);
        assert_eq!(table.claim(&id("b"), 1, ()), Claim::Full);
        assert_eq!(table.claim(&id("a"), 1, ()), Claim::Known(()));
    }

    proptest! {
        #[test]
        fn an_id_is_never_held_by_two_and_memory_is_bounded(
            events in prop::collection::vec((0_u8..6, any::<bool>(), 0_u64..400), 0..200),
        ) {
            let mut table = SandboxTable::new(4);
            let mut now = Instant::now();
            let mut held = HashMap::new();
            for (number, (name, claims, wait)) in events.into_iter().enumerate() {
                let name = id(&name.to_string());
                now += Duration::from_secs(wait);
                table.prune(now);
                if claims {
                    match table.claim(&name, 0, number) {
                        Claim::New => prop_assert_eq!(held.insert(name, number), None),
                        Claim::Known(sandbox) => prop_assert_eq!(held.get(&name), Some(&sandbox)),
                        Claim::Conflict => prop_assert!(false, "all claims are equal"),
                        Claim::Ended(_) => prop_assert!(!held.contains_key(&name)),
                        Claim::Full => prop_assert_eq!(held.len(), 4),
                    }
                } else {
                    table.end(&name, epitaph(), now);
                    held.remove(&name);
                }
                prop_assert_eq!(table.live_count(), held.len());
                prop_assert_eq!(table.order.len(), table.ended.len());
            }
        }
    }
}
