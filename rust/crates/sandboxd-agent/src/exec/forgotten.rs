//! Ids of execs that have run and whose results gave way: just enough to refuse them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::time::Instant;

/// How many ids are remembered for a sandbox, in some MiB. A caller would have to end more than a
/// thousand execs each second in one sandbox, and without a pause, to have one forgotten before its
/// time.
const MOST: usize = 65_536;

/// Hashes of ids, each until its time. Two ids with the same hash would refuse one that never ran; with
/// keys that nobody can know that takes 2⁶⁴ tries.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    keys: RandomState,
    /// Until when each hash is remembered.
    until: HashMap<u64, Instant>,
    /// Soonest first.
    order: VecDeque<(Instant, u64)>,
}

impl Forgotten {
    /// Remembers `id` until a moment that is not before the one given last.
    pub(super) fn remember(&mut self, id: &str, until: Instant) {
        let hash = self.keys.hash_one(id);
        self.until.insert(hash, until);
        self.order.push_back((until, hash));
        if self.order.len() > MOST {
            self.drop_first();
        }
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        // Usually there is nothing to look through: every start asks.
        !self.until.is_empty() && self.until.contains_key(&self.keys.hash_one(id))
    }

    /// Lets go of what has been remembered long enough.
    pub(super) fn prune(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(until, _)| now >= *until) {
            self.drop_first();
        }
        if self.order.is_empty() {
            self.until.shrink_to_fit();
            self.order.shrink_to_fit();
        }
    }

    fn drop_first(&mut self) {
        if let Some((until, hash)) = self.order.pop_front()
            && self.until.get(&hash) == Some(&until)
        {
            self.until.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_id_is_remembered_until_its_time_and_no_longer() {
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        let mut forgotten = Forgotten::default();
        forgotten.remember("a", now + minute);
        forgotten.prune(now + minute / 2);
        assert!(forgotten.contains("a") && !forgotten.contains("b"));
        forgotten.prune(now + minute);
        assert!(!forgotten.contains("a"));
    }

    #[test]
    fn however_many_there_are_memory_is_bounded_and_the_newest_are_known() {
        let now = Instant::now();
        let mut forgotten = Forgotten::default();
        for number in 0..2 * MOST {
            forgotten.remember(&number.to_string(), now);
        }
        assert_eq!((forgotten.until.len(), forgotten.order.len()), (MOST, MOST));
        assert!(forgotten.contains(&MOST.to_string()));
        assert!(!forgotten.contains("0"));
    }
}
