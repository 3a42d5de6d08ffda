//! The sandboxes of this agent by id. The lock around this table is what makes a claim atomic.
//!
//! Pure: events and a time come in, answers go out. An id whose sandbox has ended keeps its epitaph
//! for a while, so that a late call learns what happened instead of "not found".
//!
//! Warm sandboxes are in it under a name of their own, until a claim of their template takes the
//! oldest: that is one step, so two claims never get the same. No call finds one before that.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandboxd_proto::{CallError, ErrorCode, v1};

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
    /// Nothing, and a warm sandbox was there: it is entered now.
    Warm(S),
    /// The sandbox of this very claim.
    Known(S),
    /// The sandbox of another claim.
    Conflict,
    /// One that has ended.
    Ended(CallError),
    /// As many sandboxes exist as may.
    Full,
}

/// Whether a warm sandbox can be had by a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It is the claim's now.
    Taken,
    /// It has died, or is about to: the next one may be had.
    Dead,
    /// None can: the claim asks for what only a new one has.
    Never,
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
    /// For lists; `None` of a warm one that lives on under its claim's name.
    pub(crate) summary: Option<v1::Sandbox>,
}

/// The table. `S` is a cheap handle.
#[derive(Debug)]
pub(crate) struct SandboxTable<S> {
    live: HashMap<Arc<str>, (Fingerprint, S)>,
    /// Those that nobody has claimed, whether they are ready or not, with their template.
    warm: HashMap<Arc<str>, (Arc<str>, S)>,
    /// The ready ones of each template, oldest first. Those that died are still in it.
    shelves: HashMap<Arc<str>, VecDeque<Arc<str>>>,
    ended: HashMap<Arc<str>, Epitaph>,
    /// Oldest first.
    order: VecDeque<(Instant, Arc<str>)>,
    limit: usize,
}

impl<S: Clone> SandboxTable<S> {
    /// A table that lets `limit` sandboxes exist at once.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            live: HashMap::new(),
            warm: HashMap::new(),
            shelves: HashMap::new(),
            ended: HashMap::new(),
            order: VecDeque::new(),
            limit,
        }
    }

    /// Enters `sandbox` under `id` unless that is taken, or a warm one of the template that `fit`
    /// takes for the claim.
    pub(crate) fn claim(
        &mut self,
        id: &Arc<str>,
        fingerprint: Fingerprint,
        template: &str,
        sandbox: S,
        now: Instant,
        fit: impl FnMut(&S) -> Fit,
    ) -> Claim<S> {
        match self.live.get(id) {
            Some((known, sandbox)) if *known == fingerprint => {
                return Claim::Known(sandbox.clone());
            }
            Some(_) => return Claim::Conflict,
            None if self.warm.contains_key(id) => return Claim::Conflict,
            None => {}
        }
        if let Some(epitaph) = self.ended.get(id) {
            return Claim::Ended(epitaph.error.clone());
        }
        if let Some(warm) = self.take_warm(id, template, now, fit) {
            self.live.insert(Arc::clone(id), (fingerprint, warm.clone()));
            return Claim::Warm(warm);
        }
        if self.is_full() {
            return Claim::Full;
        }
        self.live.insert(Arc::clone(id), (fingerprint, sandbox));
        Claim::New
    }

    fn take_warm(
        &mut self,
        id: &Arc<str>,
        template: &str,
        now: Instant,
        mut fit: impl FnMut(&S) -> Fit,
    ) -> Option<S> {
        let shelf = self.shelves.get_mut(template)?;
        while let Some(name) = shelf.pop_front() {
            let Some((_, sandbox)) = self.warm.get(&name) else { continue };
            match fit(sandbox) {
                Fit::Taken => {
                    let (_, sandbox) = self.warm.remove(&name)?;
                    // A repeated order for this one must not make another.
                    let message = format!("sandbox {name:?} was claimed as {id:?}");
                    let error = CallError::new(ErrorCode::SandboxClosed, message);
                    self.remember(&name, Epitaph { error, summary: None }, now);
                    return Some(sandbox);
                }
                // Its keeper ends it here too.
                Fit::Dead => {}
                Fit::Never => {
                    shelf.push_front(name);
                    return None;
                }
            }
        }
        None
    }

    /// Enters `sandbox` under `id`, for nobody yet, unless that is taken.
    pub(crate) fn warm(&mut self, id: &Arc<str>, template: &Arc<str>, sandbox: S) -> Claim<S> {
        match self.warm.get(id) {
            Some((known, sandbox)) if known == template => return Claim::Known(sandbox.clone()),
            Some(_) => return Claim::Conflict,
            None if self.live.contains_key(id) => return Claim::Conflict,
            None => {}
        }
        if let Some(epitaph) = self.ended.get(id) {
            return Claim::Ended(epitaph.error.clone());
        }
        if self.is_full() {
            return Claim::Full;
        }
        self.warm.insert(Arc::clone(id), (Arc::clone(template), sandbox));
        Claim::New
    }

    /// Lets claims have a warm sandbox, which is ready now. Nothing happens to one that has ended.
    pub(crate) fn shelve(&mut self, id: &Arc<str>) {
        if let Some((template, _)) = self.warm.get(id) {
            self.shelves.entry(Arc::clone(template)).or_default().push_back(Arc::clone(id));
        }
    }

    /// The one with this id, if nobody has claimed it.
    pub(crate) fn find_warm(&self, id: &str) -> Option<S> {
        self.warm.get(id).map(|(_, sandbox)| sandbox.clone())
    }

    fn is_full(&self) -> bool {
        self.live.len() + self.warm.len() >= self.limit
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
        if let Some((template, _)) = self.warm.remove(id) {
            if let Some(shelf) = self.shelves.get_mut(&template) {
                shelf.retain(|other| other != id);
            }
        } else if self.live.remove(id).is_none() {
            return;
        }
        self.remember(id, epitaph, now);
    }

    fn remember(&mut self, id: &Arc<str>, epitaph: Epitaph, now: Instant) {
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

    /// Sandboxes that nobody has claimed.
    pub(crate) fn unclaimed(&self) -> impl Iterator<Item = &S> {
        self.warm.values().map(|(_, sandbox)| sandbox)
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

    use super::*;

    fn id(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    fn epitaph() -> Epitaph {
        let error = CallError::new(ErrorCode::SandboxClosed, "closed");
        Epitaph { error, summary: None }
    }

    /// A claim of template `t` for which any warm sandbox will do.
    fn claim<S: Clone>(
        table: &mut SandboxTable<S>,
        name: &str,
        fingerprint: Fingerprint,
        sandbox: S,
    ) -> Claim<S> {
        table.claim(&id(name), fingerprint, "t", sandbox, Instant::now(), |_| Fit::Taken)
    }

    fn shelve<S: Clone>(table: &mut SandboxTable<S>, name: &str, sandbox: S) {
        assert!(matches!(table.warm(&id(name), &id("t"), sandbox), Claim::New));
        table.shelve(&id(name));
    }

    #[test]
    fn r6_the_same_claim_again_gets_the_same_sandbox() {
        let mut table = SandboxTable::new(8);
        assert_eq!(claim(&mut table, "a", 1, "first"), Claim::New);
        assert_eq!(claim(&mut table, "a", 1, "again"), Claim::Known("first"));
        assert_eq!(claim(&mut table, "a", 2, "other"), Claim::Conflict);
        assert_eq!(table.find("a"), Find::Known("first"));
    }

    #[test]
    fn an_ended_sandbox_is_never_made_again_by_a_late_claim() {
        let now = Instant::now();
        let mut table = SandboxTable::new(8);
        claim(&mut table, "a", 1, ());
        table.end(&id("a"), epitaph(), now);
        assert_eq!(table.find("a"), Find::Ended(epitaph().error));
        assert_eq!(claim(&mut table, "a", 1, ()), Claim::Ended(epitaph().error));
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
        assert_eq!(claim(&mut table, "a", 1, ()), Claim::New);
        assert_eq!(claim(&mut table, "b", 1, ()), Claim::Full);
        assert_eq!(claim(&mut table, "a", 1, ()), Claim::Known(()));
    }

    #[test]
    fn p4_a_claim_takes_the_oldest_warm_one_and_each_is_taken_once() {
        let mut table = SandboxTable::new(8);
        shelve(&mut table, "w1", 1);
        shelve(&mut table, "w2", 2);
        assert_eq!(table.find("w1"), Find::Unknown, "no call finds one that nobody has");
        assert_eq!(claim(&mut table, "a", 1, 9), Claim::Warm(1));
        assert_eq!(claim(&mut table, "a", 1, 9), Claim::Known(1));
        assert_eq!(claim(&mut table, "b", 1, 9), Claim::Warm(2));
        assert_eq!(claim(&mut table, "c", 1, 9), Claim::New);
        assert_eq!(table.find("a"), Find::Known(1));
    }

    #[test]
    fn a_repeated_order_for_a_warm_one_never_makes_another() {
        let mut table = SandboxTable::new(8);
        shelve(&mut table, "w", 1);
        assert_eq!(table.warm(&id("w"), &id("t"), 2), Claim::Known(1));
        assert_eq!(table.warm(&id("w"), &id("other"), 2), Claim::Conflict);
        assert_eq!(claim(&mut table, "a", 1, 9), Claim::Warm(1));
        assert!(matches!(table.warm(&id("w"), &id("t"), 2), Claim::Ended(_)));
        assert!(matches!(claim(&mut table, "w", 1, 9), Claim::Ended(_)));
    }

    #[test]
    fn a_warm_one_is_had_only_once_it_is_ready_and_only_by_claims_of_its_template() {
        let mut table = SandboxTable::new(8);
        assert_eq!(table.warm(&id("w"), &id("t"), 1), Claim::New);
        assert_eq!(claim(&mut table, "a", 1, 9), Claim::New);
        table.shelve(&id("w"));
        let other = table.claim(&id("b"), 1, "u", 8, Instant::now(), |_| Fit::Taken);
        assert_eq!(other, Claim::New);
        assert_eq!(claim(&mut table, "c", 1, 9), Claim::Warm(1));
    }

    #[test]
    fn p6_a_dead_one_is_passed_over() {
        let mut table = SandboxTable::new(8);
        for (name, number) in [("w1", 1), ("w2", 2), ("w3", 3)] {
            shelve(&mut table, name, number);
        }
        table.end(&id("w1"), epitaph(), Instant::now());
        let fit = |number: &u32| if *number == 2 { Fit::Dead } else { Fit::Taken };
        let found = table.claim(&id("a"), 1, "t", 9, Instant::now(), fit);
        assert_eq!(found, Claim::Warm(3));
        assert_eq!(table.unclaimed().count(), 1, "its keeper ends the dead one");
        table.end(&id("w2"), epitaph(), Instant::now());
        assert_eq!(table.unclaimed().count(), 0);
    }

    #[test]
    fn a_claim_that_no_warm_one_fits_leaves_them_where_they_are() {
        let mut table = SandboxTable::new(8);
        shelve(&mut table, "w", 1);
        let found = table.claim(&id("a"), 1, "t", 9, Instant::now(), |_| Fit::Never);
        assert_eq!(found, Claim::New);
        assert_eq!(claim(&mut table, "b", 1, 9), Claim::Warm(1));
    }

    #[test]
    fn warm_ones_count_and_a_full_agent_still_hands_them_out() {
        let mut table = SandboxTable::new(2);
        assert_eq!(claim(&mut table, "a", 1, 1), Claim::New);
        shelve(&mut table, "w", 2);
        assert_eq!(table.warm(&id("v"), &id("t"), 3), Claim::Full);
        let unfit = table.claim(&id("b"), 1, "t", 4, Instant::now(), |_| Fit::Never);
        assert_eq!(unfit, Claim::Full);
        assert_eq!(claim(&mut table, "b", 1, 4), Claim::Warm(2));
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
                    match claim(&mut table, &name, 0, number) {
                        Claim::Warm(_) => prop_assert!(false, "there are none"),
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
