//! How often another launcher may be started: a machine on which it cannot live is not kept busy.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many in any [`WHILE`] are started at once.
const AT_ONCE: usize = 3;

const WHILE: Duration = Duration::from_secs(10);

/// Between those beyond.
const PAUSE: Duration = Duration::from_secs(1);

/// When launchers were started in place of others.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// The last ones, oldest first.
    recent: VecDeque<Instant>,
}

impl Restarts {
    /// When the next one may be started; `now` unless too many were.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let recent = self.recent.iter().filter(|at| now.saturating_duration_since(**at) < WHILE);
        match self.recent.back() {
            Some(last) if recent.count() >= AT_ONCE => now.max(*last + PAUSE),
            _ => now,
        }
    }

    /// Notes that one was started.
    pub(super) fn note(&mut self, at: Instant) {
        self.recent.push_back(at);
        if self.recent.len() > AT_ONCE {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_few_are_started_at_once_and_then_one_each_second() {
        let start = Instant::now();
        let mut restarts = Restarts::default();
        for _ in 0..AT_ONCE {
            assert_eq!(restarts.next(start), start);
            restarts.note(start);
        }
        assert_eq!(restarts.next(start), start + PAUSE);
        assert_eq!(restarts.next(start + WHILE), start + WHILE);
    }

    proptest! {
        #[test]
        fn whenever_they_die_no_more_are_started_than_may(
            lives in prop::collection::vec(0_u64..3_000, 0..60),
        ) {
            let mut restarts = Restarts::default();
            let mut now = Instant::now();
            let mut starts = Vec::new();
            for life in lives {
                now += Duration::from_millis(life);
                let at = restarts.next(now);
                prop_assert!(at >= now && at <= now + PAUSE);
                restarts.note(at);
                starts.push(at);
                now = at;
            }
            for window in starts.windows(AT_ONCE + 1) {
                let (last, before) = (window[AT_ONCE], window[AT_ONCE - 1]);
                let crowded = last - window[0] < WHILE;
                prop_assert!(!crowded || last - before >= PAUSE);
            }
        }
    }
}
