//! The first and the last bytes of a stream of any length.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::kept::{Kept, Range, Read, ranges};

/// Keeps the first and the last half of `limit` bytes, and counts all.
///
/// Memory grows with what is kept, never beyond the limit.
#[derive(Debug)]
pub(crate) struct HeadTail {
    head: Vec<u8>,
    head_limit: usize,
    /// A ring once it is full: the oldest byte is at `oldest`.
    tail: Vec<u8>,
    tail_limit: usize,
    oldest: usize,
    total: u64,
    /// Of all bytes, from the moment on that one is lost: small outputs cost nothing.
    hash: Option<Box<Sha256>>,
}

impl HeadTail {
    pub(crate) const fn new(limit: usize) -> Self {
        let tail_limit = limit / 2;
        let head_limit = limit - tail_limit;
        Self {
            head: Vec::new(),
            head_limit,
            tail: Vec::new(),
            tail_limit,
            oldest: 0,
            total: 0,
            hash: None,
        }
    }

    /// Appends what the program wrote.
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.hash(data);
        self.total += data.len() as u64;
        let (head, rest) = data.split_at(data.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        // Only the last `tail_limit` bytes can survive: the rest need not be copied.
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let (fill, over) = rest.split_at(rest.len().min(self.tail_limit - self.tail.len()));
        self.tail.extend_from_slice(fill);
        self.overwrite(over);
    }

    fn hash(&mut self, data: &[u8]) {
        if let Some(hash) = &mut self.hash {
            hash.update(data);
        } else if self.total + data.len() as u64 > (self.head_limit + self.tail_limit) as u64 {
            let mut hash = Box::new(Sha256::new());
            // All that came before is still there, and the ring has not turned.
            hash.update(&self.head);
            hash.update(&self.tail);
            hash.update(data);
            self.hash = Some(hash);
        }
    }

    /// The hash of the whole stream, if bytes of it are missing.
    pub(crate) fn sha256(&self) -> Option<[u8; 32]> {
        self.hash.as_ref().map(|hash| (**hash).clone().finalize().into())
    }

    /// Bytes in memory.
    pub(crate) const fn in_memory(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// All bytes in two parts, if none is missing.
    pub(crate) fn whole(&self) -> Option<[&[u8]; 2]> {
        self.hash.is_none().then_some([&self.head, &self.tail])
    }

    /// Replaces the oldest bytes of a full tail. `data` is no longer than the tail.
    fn overwrite(&mut self, data: &[u8]) {
        let (first, second) = data.split_at(data.len().min(self.tail.len() - self.oldest));
        self.tail[self.oldest..self.oldest + first.len()].copy_from_slice(first);
        self.tail[..second.len()].copy_from_slice(second);
        if !self.tail.is_empty() {
            self.oldest = (self.oldest + data.len()) % self.tail.len();
        }
    }

    /// Bytes that were pushed.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// What is there to be read.
    pub(crate) fn ranges(&self) -> Vec<Range> {
        ranges(self.head.len() as u64, self.tail_offset(), self.total)
    }

    fn tail_offset(&self) -> u64 {
        self.total - self.tail.len() as u64
    }

    /// At most `limit` bytes at `offset` of the stream.
    pub(crate) fn read(&self, offset: u64, limit: usize) -> Read {
        if offset >= self.total {
            return Read::Nothing;
        }
        let part = if offset < self.head.len() as u64 {
            &self.head[index(offset)..]
        } else if let Some(skip) = offset.checked_sub(self.tail_offset()) {
            let (newer, older) = self.tail.split_at(self.oldest);
            let skip = index(skip);
            if skip < older.len() { &older[skip..] } else { &newer[skip - older.len()..] }
        } else {
            return Read::Gone { available_from: self.tail_offset() };
        };
        Read::Data(Bytes::copy_from_slice(&part[..part.len().min(limit)]))
    }

    /// What is kept, in one piece.
    pub(crate) fn finish(mut self) -> Kept {
        let missing = self.total > (self.head.len() + self.tail.len()) as u64;
        let head = self.head.len();
        let (newer, older) = self.tail.split_at(self.oldest);
        self.head.reserve_exact(self.tail.len());
        self.head.extend_from_slice(older);
        self.head.extend_from_slice(newer);
        Kept { bytes: self.head.into(), head: missing.then_some(head), total: self.total }
    }
}

/// An offset that is known to lie within something in memory.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(length: usize) -> Vec<u8> {
        (0..length).map(|i| u8::try_from(i % 251).unwrap()).collect()
    }

    fn pushed(limit: usize, whole: &[u8], cuts: &[usize]) -> HeadTail {
        let mut kept = HeadTail::new(limit);
        let mut rest = whole;
        for cut in cuts {
            let (chunk, after) = rest.split_at((*cut).min(rest.len()));
            kept.push(chunk);
            rest = after;
        }
        kept.push(rest);
        kept
    }

    proptest! {
        #[test]
        fn head_and_tail_are_exact_however_the_stream_is_cut(
            limit in 0_usize..40,
            length in 0_usize..200,
            cuts in prop::collection::vec(0_usize..50, 0..12),
        ) {
            let whole = stream(length);
            let pushed = pushed(limit, &whole, &cuts);
            let right: [u8; 32] = Sha256::digest(&whole).into();
            prop_assert_eq!(pushed.sha256(), (length > limit).then_some(right));
            let kept = pushed.finish();
            prop_assert_eq!(kept.total, length as u64);
            if length <= limit {
                prop_assert_eq!(&kept.bytes[..], &whole[..]);
                prop_assert_eq!(kept.head, None);
            } else {
                prop_assert_eq!(kept.bytes.len(), limit);
                let head = kept.head.unwrap();
                prop_assert_eq!(head, limit - limit / 2);
                prop_assert_eq!(&kept.bytes[..head], &whole[..head]);
                prop_assert_eq!(&kept.bytes[head..], &whole[length - limit / 2..]);
            }
        }

        #[test]
        fn a_reader_gets_the_same_bytes_before_and_after_the_end(
            limit in 0_usize..40,
            length in 0_usize..120,
            cuts in prop::collection::vec(0_usize..50, 0..6),
            offset in 0_u64..130,
        ) {
            let whole = stream(length);
            let running = pushed(limit, &whole, &cuts);
            let before = running.read(offset, 16);
            let after = running.finish().read(offset, 16);
            if let Read::Data(data) = &before {
                let start = usize::try_from(offset).unwrap();
                prop_assert!(!data.is_empty());
                prop_assert_eq!(&data[..], &whole[start..start + data.len()]);
                prop_assert!(matches!(after, Read::Data(_)));
            } else {
                prop_assert_eq!(before, after);
            }
        }
    }
}
