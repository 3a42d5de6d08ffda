//! What is on its way to the standard input of an exec.
//!
//! Writes carry offsets, so that one whose answer was lost can be repeated: bytes that were taken
//! are not taken twice. Once the program has closed its end, bytes are counted and dropped, as a
//! pipe's last ones are.

use bytes::{Buf as _, BytesMut};

/// Bytes taken ahead of the program. Above the pipe's own buffer, so that a program that reads
/// steadily never waits for the agent.
const LIMIT: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Stdin {
    waiting: BytesMut,
    taken: u64,
    end: bool,
    /// The end of file of a terminal, which is typed, is among what waits.
    typed: bool,
    /// The last byte that was written did not end a line.
    in_line: bool,
    /// The program reads no more.
    closed: bool,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// All of it is taken.
    Done,
    /// There is no room for the rest: try the same write again when there is.
    Full,
    /// It begins beyond what was taken: something between is missing.
    Gap,
    /// It has bytes behind the end that was given before.
    Ended,
}

impl Stdin {
    /// All of the input at once, however long.
    pub(crate) fn whole(data: &[u8]) -> Self {
        let taken = data.len() as u64;
        Self { waiting: BytesMut::from(data), taken, end: true, ..Self::default() }
    }

    /// Takes the part of `data`, which begins at `offset`, that was not taken before.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8], end: bool) -> Write {
        let Some(known) = self.taken.checked_sub(offset) else { return Write::Gap };
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(data.len());
        let new = &data[known..];
        if self.end {
            // A repeated last write has nothing new.
            return if new.is_empty() { Write::Done } else { Write::Ended };
        }
        if self.closed {
            self.taken += new.len() as u64;
            self.end |= end;
            return Write::Done;
        }
        let fits = new.len().min(LIMIT - self.waiting.len().min(LIMIT));
        self.waiting.extend_from_slice(&new[..fits]);
        self.taken += fits as u64;
        if fits < new.len() {
            return Write::Full;
        }
        self.end |= end;
        Write::Done
    }

    /// Bytes taken in all.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether nothing more is taken.
    pub(crate) const fn has_ended(&self) -> bool {
        self.end || self.closed
    }

    /// What to write to the pipe next.
    pub(crate) fn next(&self) -> &[u8] {
        &self.waiting
    }

    /// Notes that the pipe took `count` bytes.
    pub(crate) fn advance(&mut self, count: usize) {
        if let Some(last) = count.checked_sub(1).and_then(|last| self.waiting.get(last)) {
            self.in_line = !matches!(last, b'\n' | b'\r');
        }
        self.waiting.advance(count);
    }

    /// Puts what a terminal takes for an end of file behind everything else, once; `typed` is told
    /// whether that comes in the middle of a line.
    pub(crate) fn type_end(&mut self, typed: impl FnOnce(bool) -> Vec<u8>) {
        if self.is_finished() && !self.closed && !self.typed {
            self.waiting.extend_from_slice(&typed(self.in_line));
            self.typed = true;
        }
    }

    /// Whether the pipe is to be closed.
    pub(crate) fn is_finished(&self) -> bool {
        self.closed || (self.end && self.waiting.is_empty())
    }

    /// Notes that the program reads no more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.waiting = BytesMut::new();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gap_is_refused_and_takes_nothing() {
        let mut stdin = Stdin::default();
        assert_eq!(stdin.write(1, b"x", false), Write::Gap);
        assert_eq!(stdin.taken(), 0);
    }

    #[test]
    fn a_full_buffer_takes_the_rest_when_the_write_is_repeated() {
        let mut stdin = Stdin::default();
        let data = vec![7; LIMIT + 10];
        assert_eq!(stdin.write(0, &data, true), Write::Full);
        assert!(!stdin.is_finished());
        stdin.advance(LIMIT);
        assert_eq!(stdin.write(0, &data, true), Write::Done);
        assert_eq!(stdin.taken(), LIMIT as u64 + 10);
        stdin.advance(10);
        assert!(stdin.is_finished());
    }

    #[test]
    fn after_the_end_a_repeated_write_is_known_and_a_new_one_refused() {
        for closed in [false, true] {
            let mut stdin = Stdin::default();
            if closed {
                stdin.close();
            }
            assert_eq!(stdin.write(0, b"abc", true), Write::Done);
            assert_eq!(stdin.write(0, b"abc", true), Write::Done);
            assert_eq!(stdin.write(3, b"", false), Write::Done);
            assert_eq!(stdin.write(0, b"abcd", false), Write::Ended);
            assert_eq!(stdin.write(3, b"d", true), Write::Ended);
            assert_eq!(stdin.taken(), 3);
        }
    }

    #[test]
    fn writes_to_a_program_that_reads_no_more_are_counted_and_dropped() {
        let mut stdin = Stdin::default();
        stdin.close();
        assert_eq!(stdin.write(0, b"abc", false), Write::Done);
        assert_eq!((stdin.taken(), stdin.next()), (3, b"".as_slice()));
    }

    #[test]
    fn an_end_that_is_typed_comes_last_and_once() {
        let mut stdin = Stdin::whole(b"ab");
        stdin.type_end(|_| unreachable!("there is more before it"));
        stdin.advance(2);
        stdin.type_end(|in_line| vec![4; if in_line { 2 } else { 1 }]);
        assert_eq!(stdin.next(), [4, 4]);
        assert!(!stdin.is_finished());
        stdin.advance(2);
        stdin.type_end(|_| unreachable!("it was typed"));
        assert!(stdin.is_finished());
        assert_eq!(stdin.taken(), 2, "it is not the caller's");
    }

    proptest! {
        #[test]
        fn repeated_and_overlapping_writes_deliver_every_byte_once(
            writes in prop::collection::vec((0_usize..64, 0_usize..64), 0..40),
        ) {
            let whole: Vec<u8> = (0..64).collect();
            let mut stdin = Stdin::default();
            for (start, length) in writes {
                let end = (start + length).min(whole.len());
                let start = start.min(end);
                let before = stdin.taken();
                match stdin.write(start as u64, &whole[start..end], false) {
                    Write::Done => prop_assert_eq!(stdin.taken(), before.max(end as u64)),
                    Write::Gap => prop_assert!(start as u64 > before),
                    Write::Full | Write::Ended => prop_assert!(false, "64 bytes fit"),
                }
            }
            prop_assert_eq!(stdin.next(), &whole[..usize::try_from(stdin.taken()).unwrap()]);
        }
    }
}
