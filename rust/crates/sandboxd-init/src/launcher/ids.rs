//! Which host ids are in use.
//!
//! Invariant: a range belongs to one sandbox from before its namespaces are mapped until its init was
//! reaped, so no process of one can ever be a process of another's user.

use sandboxd_linux::launcher::IdSlots;
use sandboxd_linux::protocol::IdRange;

/// The ranges of the launcher.
#[derive(Debug)]
pub(super) struct Ids {
    slots: IdSlots,
    /// Ranges that were never used start here.
    fresh: u32,
    /// Ranges that were given back.
    free: Vec<u32>,
}

impl Ids {
    pub(super) const fn new(slots: IdSlots) -> Self {
        Self { slots, fresh: 0, free: Vec::new() }
    }

    /// A range that nobody has, if there is one.
    pub(super) fn take(&mut self) -> Option<IdRange> {
        // Fresh ones first: whatever the kernel still holds for a range has the longest time to go.
        let slot = if self.fresh < self.slots.slots {
            self.fresh += 1;
            self.fresh - 1
        } else {
            self.free.pop()?
        };
        let IdSlots { first, count, .. } = self.slots;
        Some(IdRange { first: first + slot * count, count })
    }

    /// Gives a range back.
    pub(super) fn give_back(&mut self, range: IdRange) {
        self.free.push((range.first - self.slots.first) / self.slots.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_run_out_and_come_back() {
        let mut ids = Ids::new(IdSlots { first: 1_000, count: 10, slots: 2 });
        let first = ids.take().unwrap();
        let second = ids.take().unwrap();
        assert_eq!(first, IdRange { first: 1_000, count: 10 });
        assert_eq!(second, IdRange { first: 1_010, count: 10 });
        assert_eq!(ids.take(), None);

        ids.give_back(second);
        assert_eq!(ids.take(), Some(second));
        assert_eq!(ids.take(), None);
    }
}
