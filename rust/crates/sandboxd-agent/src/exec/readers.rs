//! Who reads the output of an exec, how far each has come, and what must therefore be kept.
//!
//! A program is held back for the reader that is furthest ahead, so that a slow one delays nobody
//! else. A reader that was cut off counts for a moment as if it were still there: it comes back.

use std::task::Waker;
use std::time::{Duration, Instant};

/// How long a reader that is gone counts. Above the time that a client takes to mend its connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Readers that are gone and count. Whoever comes and goes faster than that wants no output.
const MOST_GONE: usize = 64;

/// Position of a reader in a stream that it does not read.
pub(crate) const NOT_READ: u64 = u64::MAX;

/// How far a stream was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// By every reader.
    pub(crate) slowest: u64,
    /// By the one that is furthest ahead.
    pub(crate) furthest: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Readers {
    attached: Vec<Reader>,
    next: u32,
    /// How far any reader has come.
    furthest: [u64; 2],
    /// Those that left, and until when they count.
    gone: Vec<([u64; 2], Instant)>,
}

#[derive(Debug)]
struct Reader {
    number: u32,
    positions: [u64; 2],
    /// Whether it reads on as more comes. If not, it only keeps its bytes from being given up.
    follows: bool,
    waker: Option<Waker>,
}

impl Readers {
    /// Adds a reader that asks for bytes from `positions` on. Returns its number.
    pub(crate) fn attach(&mut self, positions: [u64; 2], follows: bool) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.attached.push(Reader { number, positions, follows, waker: None });
        number
    }

    pub(crate) fn detach(&mut self, number: u32, now: Instant) {
        let Some(index) = self.attached.iter().position(|reader| reader.number == number) else {
            return;
        };
        let reader = self.attached.swap_remove(index);
        if reader.follows {
            self.gone.retain(|(_, until)| now < *until);
            if self.gone.len() == MOST_GONE {
                self.gone.remove(0);
            }
            self.gone.push((reader.positions, now + PATIENCE));
        }
    }

    /// Notes how far a reader has come.
    pub(crate) fn advance(&mut self, number: u32, stream: usize, position: u64) {
        let Some(reader) = self.find(number) else { return };
        reader.positions[stream] = position;
        if reader.follows {
            self.furthest[stream] = self.furthest[stream].max(position);
        }
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

    /// How far a stream was read.
    pub(crate) fn progress(&self, stream: usize, now: Instant) -> Progress {
        let reads = |position: &u64| *position != NOT_READ;
        let followers = self.attached.iter().filter(|reader| reader.follows);
        let there = followers.map(|reader| reader.positions[stream]).filter(reads);
        let gone = self.gone.iter().filter(|(_, until)| now < *until);
        let back_soon = gone.map(|(positions, _)| positions[stream]).filter(reads);
        let slowest = there.clone().chain(back_soon).min().unwrap_or(self.furthest[stream]);
        let others = self.attached.iter().filter(|reader| !reader.follows);
        let slowest = others.map(|reader| reader.positions[stream]).fold(slowest, u64::min);
        Progress { slowest, furthest: there.max().unwrap_or(self.furthest[stream]) }
    }

    /// Where the reader is that is furthest ahead, of those that are there.
    pub(crate) fn ahead(&self, stream: usize) -> Option<u64> {
        let followers = self.attached.iter().filter(|reader| reader.follows);
        followers.map(|reader| reader.positions[stream]).filter(|at| *at != NOT_READ).max()
    }

    fn find(&mut self, number: u32) -> Option<&mut Reader> {
        self.attached.iter_mut().find(|reader| reader.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(slowest: u64, furthest: u64) -> Progress {
        Progress { slowest, furthest }
    }

    #[test]
    fn h3_the_slowest_reader_and_the_one_furthest_ahead_are_told_apart() {
        let now = Instant::now();
        let mut readers = Readers::default();
        let slow = readers.attach([0, 0], true);
        let fast = readers.attach([0, 0], true);
        readers.advance(fast, 0, 100);
        assert_eq!(readers.progress(0, now), progress(0, 100));
        assert_eq!(readers.progress(1, now), progress(0, 0));
        readers.detach(slow, now);
        assert_eq!(readers.progress(0, now), progress(0, 100), "it may come back");
        assert_eq!(readers.progress(0, now + PATIENCE), progress(100, 100));
    }

    #[test]
    fn h4_without_readers_what_was_never_read_is_unread_for_ever() {
        let now = Instant::now();
        let mut readers = Readers::default();
        assert_eq!(readers.progress(0, now), progress(0, 0));
        let reader = readers.attach([0, 0], true);
        readers.advance(reader, 0, 70);
        readers.detach(reader, now);
        assert_eq!(readers.progress(0, now + 10 * PATIENCE), progress(70, 70));
    }

    #[test]
    fn whoever_looks_at_a_part_keeps_it_and_counts_for_nothing_else() {
        let now = Instant::now();
        let mut readers = Readers::default();
        let follower = readers.attach([0, 0], true);
        readers.advance(follower, 0, 100);
        let glance = readers.attach([10, NOT_READ], false);
        assert_eq!(readers.progress(0, now), progress(10, 100));
        assert_eq!(readers.progress(1, now), progress(0, 0));
        readers.advance(glance, 0, 900);
        readers.detach(glance, now);
        assert_eq!(readers.progress(0, now), progress(100, 100));
    }

    #[test]
    fn a_reader_of_one_stream_has_not_read_the_other() {
        let now = Instant::now();
        let mut readers = Readers::default();
        let reader = readers.attach([0, NOT_READ], true);
        readers.advance(reader, 0, 5);
        assert_eq!(readers.progress(1, now), progress(0, 0));
        readers.detach(reader, now);
        assert_eq!(readers.progress(1, now), progress(0, 0));
    }

    #[test]
    fn those_who_left_are_bounded() {
        let now = Instant::now();
        let mut readers = Readers::default();
        for _ in 0..2 * MOST_GONE {
            let reader = readers.attach([0, 0], true);
            readers.detach(reader, now);
        }
        assert_eq!(readers.gone.len(), MOST_GONE);
    }
}
