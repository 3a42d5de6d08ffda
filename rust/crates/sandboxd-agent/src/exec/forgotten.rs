//! Ids of execs that have run and whose results are not kept any more: just enough to refuse them.
//!
//! An id is never used twice in the life of a sandbox. A client may be stopped, or cut off, for
//! longer than a result is kept; what it then sends again must not run again.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

/// How many ids are remembered for a sandbox, in two MiB. The oldest give way.
const MOST: usize = 65_536;

/// Hashes of ids. Two ids with the same hash would refuse one that never ran; with keys that nobody
/// can know that takes 2⁶⁴ tries.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    keys: RandomState,
    known: HashSet<u64>,
    /// Oldest first.
    order: VecDeque<u64>,
}

impl Forgotten {
    pub(super) fn remember(&mut self, id: &str) {
        let hash = self.keys.hash_one(id);
        if !self.known.insert(hash) {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        // Usually there is nothing to look through: every start asks.
        !self.known.is_empty() && self.known.contains(&self.keys.hash_one(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_remembered_and_no_other() {
        let mut forgotten = Forgotten::default();
        forgotten.remember("a");
        forgotten.remember("a");
        assert!(forgotten.contains("a") && !forgotten.contains("b"));
        assert_eq!(forgotten.order.len(), 1);
    }

    #[test]
    fn however_many_there_are_memory_is_bounded_and_the_newest_are_known() {
        let mut forgotten = Forgotten::default();
        for number in 0..2 * MOST {
            forgotten.remember(&number.to_string());
        }
        assert_eq!((forgotten.known.len(), forgotten.order.len()), (MOST, MOST));
        assert!(forgotten.contains(&MOST.to_string()));
        assert!(!forgotten.contains("0"));
    }
}
