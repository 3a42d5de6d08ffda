//! Who reads the output of an exec, how far each has come, and what must therefore be kept.
//!
//! A program is held back for the reader that is furthest ahead, so that a slow one delays nobody
//! else. Without a reader it is held back for a moment only: long enough for the first to arrive, or
//! for one that was cut off to come back.

use std::task::Waker;
use std::time::{Duration, Instant};

/// How long output is kept for a reader that is not there. Above the time that a client takes to
/// mend its connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Readers {
    attached: Vec<Reader>,
    next: u32,
    /// How far any reader has come.
    furthest: [u64; 2],
    /// Since when nobody reads.
    alone_since: Instant,
}

#[derive(Debug)]
struct Reader {
    number: u32,
    positions: [u64; 2],
    waker: Option<Waker>,
}

impl Readers {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { attached: Vec::new(), next: 0, furthest: [0; 2], alone_since: now }
    }

    /// Adds a reader that asks for bytes from `positions` on. Returns its number.
    pub(crate) fn attach(&mut self, positions: [u64; 2]) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.attached.push(Reader { number, positions, waker: None });
        number
    }

    pub(crate) fn detach(&mut self, number: u32, now: Instant) {
        self.attached.retain(|reader| reader.number != number);
        if self.attached.is_empty() {
            self.alone_since = now;
        }
    }

    /// Notes how far a reader has come.
    pub(crate) fn advance(&mut self, number: u32, stream: usize, position: u64) {
        if let Some(reader) = self.find(number) {
            reader.positions[stream] = position;
        }
        self.furthest[stream] = self.furthest[stream].max(position);
    }

    /// Lets a reader sleep until there is something new.
    pub(crate) fn sleep(&mut self, number: u32, waker: &Waker) {
        if let Some(reader) = self.find(number) {
            reader.waker = Some(waker.clone());
        }
    }

    pub(crate) fn wake(&mut self) {
        for reader in &mut self.attached {
            if let Some(waker) = reader.waker.take() {
                waker.wake();
            }
        }
    }

    /// From which offset on bytes must not be dropped; `None` if all may be.
    pub(crate) fn keep_from(&self, stream: usize, now: Instant) -> Option<u64> {
        let positions = self.attached.iter().map(|reader| reader.positions[stream]);
        positions.max().or_else(|| (now < self.patience_ends()).then_some(self.furthest[stream]))
    }

    /// Until when output is kept although nobody reads.
    pub(crate) fn patience_ends(&self) -> Instant {
        self.alone_since + PATIENCE
    }

    fn find(&mut self, number: u32) -> Option<&mut Reader> {
        self.attached.iter_mut().find(|reader| reader.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h3_the_reader_that_is_furthest_ahead_decides() {
        let now = Instant::now();
        let mut readers = Readers::new(now);
        let slow = readers.attach([0, 0]);
        let fast = readers.attach([0, 0]);
        readers.advance(fast, 0, 100);
        assert_eq!(readers.keep_from(0, now), Some(100));
        assert_eq!(readers.keep_from(1, now), Some(0));
        readers.detach(fast, now);
        assert_eq!(readers.keep_from(0, now), Some(0));
        readers.detach(slow, now);
        assert_eq!(readers.keep_from(0, now), Some(100), "it may come back");
    }

    #[test]
    fn h4_nobody_is_waited_for_longer_than_the_patience() {
        let now = Instant::now();
        let mut readers = Readers::new(now);
        assert_eq!(readers.keep_from(0, now), Some(0));
        assert_eq!(readers.keep_from(0, now + PATIENCE), None);
        let reader = readers.attach([7, 0]);
        assert_eq!(readers.keep_from(0, now + 2 * PATIENCE), Some(7), "it is there");
        readers.detach(reader, now + 2 * PATIENCE);
        assert!(readers.keep_from(0, now + 2 * PATIENCE).is_some());
        assert_eq!(readers.keep_from(0, now + 3 * PATIENCE), None);
    }
}
