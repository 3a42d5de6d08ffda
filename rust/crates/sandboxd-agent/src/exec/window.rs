//! The recent bytes of a stream, numbered from its beginning.

use std::collections::VecDeque;

use bytes::Bytes;

use super::kept::{Kept, Read};

/// A stream of which the last [`Window::LIMIT`] bytes are kept for readers.
#[derive(Debug, Default)]
pub(crate) struct Window {
    bytes: VecDeque<u8>,
    /// Offset of the first byte that is kept.
    start: u64,
}

impl Window {
    /// Bytes kept per stream.
    pub(crate) const LIMIT: usize = 8 * 1024 * 1024;

    /// Bytes kept behind a reader's position: it may have been cut off before they arrived, and
    /// will ask for them again. Above the credit of a connection and its socket buffers together.
    const BEHIND: u64 = 1024 * 1024;

    /// How many bytes can be pushed without losing any that a reader at `position` may ask for.
    pub(crate) fn room(&self, position: u64) -> usize {
        let needless = position.saturating_sub(Self::BEHIND).saturating_sub(self.start);
        let needless = usize::try_from(needless).unwrap_or(usize::MAX).min(self.bytes.len());
        Self::LIMIT.saturating_sub(self.bytes.len() - needless)
    }

    /// Appends what the program wrote; the oldest bytes give way.
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.push_all(data);
        let excess = self.bytes.len().saturating_sub(Self::LIMIT);
        self.bytes.drain(..excess);
        self.start += excess as u64;
    }

    /// Appends the last bytes of the stream without dropping any: the caller bounds them.
    pub(crate) fn push_all(&mut self, data: &[u8]) {
        self.bytes.extend(data);
    }

    /// Bytes that were pushed.
    pub(crate) fn total(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Gives back memory that was held for more bytes. Returns how many stay.
    pub(crate) fn settle(&mut self) -> usize {
        self.bytes.shrink_to_fit();
        self.bytes.len()
    }

    /// At most `limit` bytes at `offset` of the stream.
    pub(crate) fn read(&self, offset: u64, limit: usize) -> Read {
        if offset >= self.total() {
            return Read::Nothing;
        }
        let Some(skip) = offset.checked_sub(self.start) else {
            return Read::Gone { available_from: self.start };
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let (older, newer) = self.bytes.as_slices();
        let part = if skip < older.len() { &older[skip..] } else { &newer[skip - older.len()..] };
        Read::Data(Bytes::copy_from_slice(&part[..part.len().min(limit)]))
    }

    /// What is kept, as the result of a command: all of it is tail where bytes were dropped.
    pub(crate) fn to_kept(&self) -> Kept {
        let (older, newer) = self.bytes.as_slices();
        let head = (self.start > 0).then_some(0);
        Kept { bytes: [older, newer].concat().into(), head, total: self.total() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_below_the_window_are_reported_with_what_is_still_there() {
        let mut window = Window::default();
        window.push(&vec![1; Window::LIMIT]);
        window.push(b"abc");
        assert_eq!(window.read(2, 10), Read::Gone { available_from: 3 });
        assert_eq!(window.read(3, 1), Read::Data(Bytes::from_static(&[1])));
        assert_eq!(window.total(), Window::LIMIT as u64 + 3);
        assert_eq!(window.settle(), Window::LIMIT);
        assert_eq!(window.to_kept().head, Some(0));
    }

    #[test]
    fn a_full_window_has_room_again_when_its_reader_moves_on() {
        let mut window = Window::default();
        window.push(&vec![1; Window::LIMIT]);
        assert_eq!(window.room(0), 0);
        assert_eq!(window.room(Window::BEHIND), 0, "the reader may ask for these again");
        assert_eq!(window.room(Window::BEHIND + 10), 10);
        assert_eq!(window.room(u64::MAX), Window::LIMIT, "a reader beyond the end wants nothing");
    }

    proptest! {
        #[test]
        fn a_reader_that_follows_gets_every_byte_once(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..20),
            limit in 1_usize..20,
        ) {
            let mut window = Window::default();
            let mut seen = Vec::new();
            for chunk in &chunks {
                window.push(chunk);
                while let Read::Data(data) = window.read(seen.len() as u64, limit) {
                    seen.extend_from_slice(&data);
                }
            }
            prop_assert_eq!(window.total(), seen.len() as u64);
            prop_assert_eq!(seen, chunks.concat());
        }
    }
}
