//! CPU time of the execs that use one leaf, one after the other.
//!
//! The kernel counts for the leaf, from its making on. Reading that count takes it as long as a dozen
//! small system calls and more with every processor, so it is not read around every exec: what an
//! exec without leftovers used is known from its main process, and is added here.

/// Execs whose use was added instead of read, before it is read again: each is wrong by microseconds.
const MOST_ADDED: u32 = 16;

/// What the execs of a leaf have used so far.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// `None`: something ran in the leaf since, and nobody knows for how long.
    nanos: Option<u64>,
    added: u32,
}

impl Meter {
    /// Of a leaf that nothing has run in.
    pub(super) const fn new() -> Self {
        Self { nanos: Some(0), added: 0 }
    }

    /// Whether it should be read before the next exec.
    pub(super) const fn is_vague(&self) -> bool {
        self.nanos.is_none() || self.added >= MOST_ADDED
    }

    /// Whether it is as the kernel counts.
    pub(super) const fn is_exact(&self) -> bool {
        self.nanos.is_some() && self.added == 0
    }

    /// Notes what the kernel has counted.
    pub(super) const fn set(&mut self, nanos: Option<u64>) {
        self.nanos = nanos;
        self.added = 0;
    }

    /// Adds what an exec has used.
    pub(super) const fn add(&mut self, nanos: u64) {
        if let Some(known) = self.nanos {
            self.nanos = Some(known.saturating_add(nanos));
            self.added += 1;
        }
    }

    /// What was used since it was last set or added to, when the kernel now counts `nanos`.
    pub(super) fn since(&self, nanos: u64) -> Option<u64> {
        self.nanos.map(|before| nanos.saturating_sub(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_one_exec_is_not_that_of_those_before() {
        let mut meter = Meter::new();
        meter.add(300);
        assert!(!meter.is_vague() && !meter.is_exact());
        assert_eq!(meter.since(1_000), Some(700));
        meter.set(Some(1_000));
        assert!(meter.is_exact());
        assert_eq!(meter.since(1_000), Some(0));
    }

    #[test]
    fn a_count_that_nobody_knows_any_more_is_read_again() {
        let mut meter = Meter::new();
        meter.set(None);
        meter.add(5);
        assert!(meter.is_vague());
        assert_eq!(meter.since(1_000), None);
        meter.set(Some(7));
        assert_eq!(meter.since(1_000), Some(993));
    }

    #[test]
    fn additions_do_not_go_on_for_ever() {
        let mut meter = Meter::new();
        let added = (0..1_000).take_while(|_| {
            meter.add(1);
            !meter.is_vague()
        });
        assert!(added.count() < 32);
    }
}
