//! How long a program waits for its reader before its output goes to disk.
//!
//! A program that does nothing but write is faster than any reader. Were its output to go to disk as
//! soon as the window is full, all of it would be written there and read again, by a reader who has
//! to share the processors with that work. So it waits a moment for a reader that reads along. One
//! that is not there in time is slow, and is not waited for until it has caught up.

use std::time::{Duration, Instant};

/// How long a program waits at most, once. A reader that takes the half MiB in this time reads along.
const GRACE: Duration = Duration::from_millis(5);

/// What a reader has to read before output can leave memory behind it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Below it, it reads from disk already.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Of one stream.
#[derive(Debug, Default)]
pub(crate) struct Grace {
    until: Option<Instant>,
    is_slow: bool,
}

impl Grace {
    /// Until when to wait for a reader that is at `position`; `None`: not at all.
    pub(crate) fn wait(
        &mut self,
        position: Option<u64>,
        wanted: Wanted,
        now: Instant,
    ) -> Option<Instant> {
        let position = position.filter(|position| *position >= wanted.from);
        if position.is_none_or(|position| position >= wanted.to) {
            self.until = None;
            self.is_slow &= position.is_none();
            return None;
        }
        if self.is_slow {
            return None;
        }
        let until = *self.until.get_or_insert(now + GRACE);
        self.is_slow = now >= until;
        (!self.is_slow).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted { from: 100, to: 200 };

    #[test]
    fn h4_a_reader_that_reads_along_is_waited_for_each_time() {
        let (mut grace, start) = (Grace::default(), Instant::now());
        assert_eq!(grace.wait(Some(150), WANTED, start), Some(start + GRACE));
        assert_eq!(grace.wait(Some(180), WANTED, start + GRACE / 2), Some(start + GRACE));
        assert_eq!(grace.wait(Some(200), WANTED, start + GRACE / 2), None);
        let later = start + GRACE * 2;
        assert_eq!(grace.wait(Some(150), WANTED, later), Some(later + GRACE));
    }

    #[test]
    fn h4_a_slow_reader_is_waited_for_once_until_it_has_caught_up() {
        let (mut grace, start) = (Grace::default(), Instant::now());
        assert!(grace.wait(Some(150), WANTED, start).is_some());
        assert_eq!(grace.wait(Some(199), WANTED, start + GRACE), None);
        assert_eq!(grace.wait(Some(150), WANTED, start + GRACE), None);
        assert_eq!(grace.wait(Some(99), WANTED, start + GRACE), None, "it reads from disk");
        assert_eq!(grace.wait(Some(150), WANTED, start + GRACE), None);
        assert_eq!(grace.wait(Some(200), WANTED, start + GRACE), None);
        assert!(grace.wait(Some(150), WANTED, start + GRACE).is_some(), "it reads along again");
    }

    #[test]
    fn h4_nobody_is_waited_for_where_nobody_reads() {
        let mut grace = Grace::default();
        assert_eq!(grace.wait(None, WANTED, Instant::now()), None);
    }
}
