//! Finding out that the other side fell silent.
//!
//! Silence is counted in ticks, not by the clock: a process that was held up for a minute reads what
//! arrived meanwhile before its next tick, and never takes its own pause for the peer's.

use std::time::{Duration, Instant};

/// Intervals of silence after which a connection with calls on it is given up.
pub const MISSED_KEEPALIVES: u32 = 3;

/// What a tick asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Wait,
    Ping,
    Dead,
}

#[derive(Debug)]
pub(super) struct Keepalive {
    interval: Duration,
    due: Option<Instant>,
    heard: bool,
    silent: u32,
}

impl Keepalive {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, due: None, heard: false, silent: 0 }
    }

    /// Starts the clock, if it stands: a call is waiting.
    pub(super) fn start(&mut self, now: Instant) {
        if self.due.is_none() {
            self.due = Some(now + self.interval);
            self.heard = false;
        }
    }

    /// Stops the clock: nothing is waiting.
    pub(super) fn stop(&mut self) {
        self.due = None;
        self.silent = 0;
    }

    pub(super) fn heard(&mut self) {
        self.heard = true;
    }

    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn tick(&mut self, now: Instant) -> Verdict {
        match self.due {
            Some(due) if due <= now => self.due = Some(now + self.interval),
            _ => return Verdict::Wait,
        }
        self.silent = if self.heard { 0 } else { self.silent + 1 };
        self.heard = false;
        if self.silent >= MISSED_KEEPALIVES { Verdict::Dead } else { Verdict::Ping }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_silent_peer_is_given_up_after_the_missed_keepalives() {
        let mut now = Instant::now();
        let mut keepalive = Keepalive::new(SECOND);
        keepalive.start(now);
        for _ in 1..MISSED_KEEPALIVES {
            now += SECOND;
            assert_eq!(keepalive.tick(now), Verdict::Ping);
        }
        assert_eq!(keepalive.tick(now + SECOND), Verdict::Dead);
    }

    #[test]
    fn t15_silence_counts_from_the_last_word_whenever_that_came() {
        let mut now = Instant::now();
        let mut keepalive = Keepalive::new(SECOND);
        keepalive.start(now);
        now += SECOND;
        assert_eq!(keepalive.tick(now), Verdict::Ping);
        keepalive.heard();
        // Three whole intervals from here on.
        for _ in 0..MISSED_KEEPALIVES {
            now += SECOND;
            assert_eq!(keepalive.tick(now), Verdict::Ping);
        }
        assert_eq!(keepalive.tick(now + SECOND), Verdict::Dead);
    }

    #[test]
    fn a_pause_of_our_own_counts_as_one_tick() {
        let now = Instant::now();
        let mut keepalive = Keepalive::new(SECOND);
        keepalive.start(now);
        assert_eq!(keepalive.tick(now + 3600 * SECOND), Verdict::Ping);
    }

    #[test]
    fn whatever_is_heard_starts_the_count_again() {
        let mut now = Instant::now();
        let mut keepalive = Keepalive::new(SECOND);
        keepalive.start(now);
        for _ in 0..100 {
            now += SECOND;
            assert_eq!(keepalive.tick(now), Verdict::Ping);
            keepalive.heard();
        }
    }
}
