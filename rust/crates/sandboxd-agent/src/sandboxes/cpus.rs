//! Which CPUs a sandbox with a share runs on.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity};

/// The CPUs of this agent, handed out in turns.
#[derive(Debug)]
pub(crate) struct Cpus {
    all: Vec<u32>,
    next: AtomicUsize,
}

impl Cpus {
    /// Those that this process may run on.
    pub(crate) fn of_this_process() -> Self {
        let set = sched_getaffinity(None).unwrap_or_default();
        let all = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
        Self::new(all.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
    }

    fn new(all: Vec<u32>) -> Self {
        Self { all, next: AtomicUsize::new(0) }
    }

    /// How many a sandbox sees that has a share of `count`; without a share, all.
    pub(crate) fn seen(&self, count: Option<u32>) -> usize {
        let all = self.all.len().max(1);
        count.map_or(all, |count| usize::try_from(count).unwrap_or(all).min(all))
    }

    /// The next `count` of them. Empty, which means all, when there are no more than that.
    pub(crate) fn take(&self, count: u32) -> Vec<u32> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count >= self.all.len() {
            return Vec::new();
        }
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let mut taken: Vec<u32> =
            (0..count).map(|step| self.all[first.wrapping_add(step) % self.all.len()]).collect();
        taken.sort_unstable();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x10_sandboxes_take_turns_on_the_cpus() {
        let cpus = Cpus::new(vec![0, 2, 3]);
        assert_eq!(cpus.take(1), [0]);
        assert_eq!(cpus.take(2), [2, 3]);
        assert_eq!(cpus.take(2), [0, 2]);
        assert!(cpus.take(3).is_empty());
        assert!(cpus.take(64).is_empty());
        assert_eq!([None, Some(1), Some(64)].map(|count| cpus.seen(count)), [3, 1, 3]);
    }
}
