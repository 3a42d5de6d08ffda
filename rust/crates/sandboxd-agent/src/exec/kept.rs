//! What remains of a stream that has ended, and what a reader finds at an offset.

use bytes::Bytes;

/// From an offset of a stream to another.
pub(crate) type Range = std::ops::Range<u64>;

/// What is at an offset of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// At least one byte.
    Data(Bytes),
    /// So many bytes are in the file of the exec.
    OnDisk(usize),
    /// Nothing yet, or nothing ever if the stream has ended.
    Nothing,
    /// These bytes were dropped; what follows begins at `available_from`.
    Gone { available_from: u64 },
}

/// Head and tail of a stream, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) bytes: Bytes,
    /// Length of the head where bytes are missing after it; `None` when nothing is.
    pub(crate) head: Option<usize>,
    /// Length of the whole stream.
    pub(crate) total: u64,
}

impl Kept {
    /// At most `limit` bytes at `offset` of the stream.
    pub(crate) fn read(&self, offset: u64, limit: usize) -> Read {
        if offset >= self.total {
            return Read::Nothing;
        }
        let head = self.head.unwrap_or(self.bytes.len());
        let tail_offset = self.total - (self.bytes.len() - head) as u64;
        let in_memory = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let (start, end) = if offset < head as u64 {
            (in_memory(offset), head)
        } else if let Some(skip) = offset.checked_sub(tail_offset) {
            (head + in_memory(skip), self.bytes.len())
        } else {
            return Read::Gone { available_from: tail_offset };
        };
        Read::Data(self.bytes.slice(start..end.min(start.saturating_add(limit))))
    }

    /// What is there to be read.
    pub(crate) fn ranges(&self) -> Vec<Range> {
        let head = self.head.unwrap_or(self.bytes.len()) as u64;
        let tail = self.bytes.len() as u64 - head;
        ranges(head, self.total - tail, self.total)
    }
}

/// The ranges of a stream of which `[0, head)` and `[from, total)` are kept.
pub(crate) fn ranges(head: u64, from: u64, total: u64) -> Vec<Range> {
    let parts = if from <= head { [0..total, 0..0] } else { [0..head, from..total] };
    parts.into_iter().filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use super::*;

    #[test]
    fn a_gap_says_where_the_rest_begins() {
        let kept = Kept { bytes: Bytes::from_static(b"headtail"), head: Some(4), total: 100 };
        assert_eq!(kept.read(1, 64), Read::Data(Bytes::from_static(b"ead")));
        assert_eq!(kept.read(4, 64), Read::Gone { available_from: 96 });
        assert_eq!(kept.read(97, 2), Read::Data(Bytes::from_static(b"ai")));
        assert_eq!(kept.read(100, 64), Read::Nothing);
        assert_eq!(kept.ranges(), [0..4, 96..100]);
    }

    #[test]
    fn what_is_whole_is_one_range_and_what_is_empty_none() {
        let whole = Kept { bytes: Bytes::from_static(b"all"), head: None, total: 3 };
        assert_eq!(whole.ranges(), [0..3]);
        assert_eq!(Kept::default().ranges(), []);
        let all_dropped = Kept { head: Some(0), total: 9, ..Kept::default() };
        assert_eq!(all_dropped.ranges(), []);
    }
}
