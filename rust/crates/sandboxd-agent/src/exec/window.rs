//! The bytes of a stream that are kept for readers, numbered from its beginning.
//!
//! ```text
//! 0 ......... head           from ............. memory_from .............. total
//! [ on disk  )      [ on disk                 )[ chunks, then `filling`  )
//! ```
//!
//! Nothing is missing while `from` has not passed `head`. What leaves memory goes to disk, or is
//! dropped: that is the policy's matter. This module decides and does no I/O.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use sha2::{Digest as _, Sha256};

use super::grace::Wanted;
use super::kept::{Range, Read, ranges};
use super::readers::Progress;
use super::spill::{Need, Share, Space, Spill};

/// The first bytes of a stream that stay on disk although they were read.
pub(crate) const HISTORY: u64 = 64 * 1024 * 1024;

/// Bytes kept behind a reader's position: it may have been cut off before they arrived, and will ask
/// for them again. Above the credit of a connection and its largest event together.
const BEHIND: usize = 512 * 1024;

/// Bytes that one chunk holds.
pub(crate) const CHUNK: usize = 64 * 1024;

/// Size of a window while memory is short: what a pipe holds.
const SMALL: usize = 64 * 1024;

/// Freed disk that is worth a system call.
const WORTH_PUNCHING: u64 = 4 * 1024 * 1024;

/// When a file that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What becomes of output beyond the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Spill,
    Block,
    DropOldest,
    /// The first and the last bytes stay, on disk if need be, and nobody is waited for.
    Ends {
        head: u64,
        tail: u64,
    },
}

/// A stream of which the newest bytes are in memory.
#[derive(Debug)]
pub(crate) struct Window {
    policy: Policy,
    size: usize,
    /// Each with its offset.
    chunks: VecDeque<(u64, Bytes)>,
    filling: Vec<u8>,
    total: u64,
    memory_from: u64,
    from: u64,
    head: u64,
    /// Bytes that are being written to disk.
    moving: usize,
    retry_at: Option<Instant>,
    /// There is no room on disk, or no disk.
    is_stuck: bool,
    garbage: Option<Garbage>,
    share: Share,
    hash: Option<Box<Sha256>>,
}

/// Bytes to be written to disk.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) offset: u64,
    pub(crate) chunks: Vec<Bytes>,
}

/// Bytes on disk that nobody wants any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Garbage {
    pub(crate) range: Range,
    /// How many bytes of it are on disk.
    pub(crate) bytes: u64,
}

/// What can be done about a window that is getting full.
#[derive(Debug, Default)]
pub(crate) struct Relief {
    /// To be written; [`Window::moved`] is to be told the outcome.
    pub(crate) write: Option<Move>,
    /// To be given back.
    pub(crate) punch: Option<Garbage>,
}

impl Window {
    pub(crate) fn new(policy: Policy, size: usize, space: &Arc<Space>) -> Self {
        Self {
            policy,
            size,
            chunks: VecDeque::new(),
            filling: Vec::new(),
            total: 0,
            memory_from: 0,
            from: 0,
            head: 0,
            moving: 0,
            retry_at: None,
            is_stuck: false,
            garbage: None,
            share: Share::new(space),
            // Only where memory is short does `Ends` come here: what it moves to disk must not have
            // to be read again for the hash.
            hash: matches!(policy, Policy::Ends { .. }).then(Box::default),
        }
    }

    /// Bytes that were pushed.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn in_memory(&self) -> usize {
        index(self.total - self.memory_from)
    }

    fn size(&self) -> usize {
        if self.share.space().memory_is_short() { self.size.min(SMALL) } else { self.size }
    }

    /// How many bytes can be pushed now; 0: the program has to wait.
    pub(crate) fn room(&self, progress: Progress) -> usize {
        let size = self.size();
        let free = (size + BEHIND).saturating_sub(self.in_memory());
        match self.policy {
            Policy::DropOldest => usize::MAX,
            Policy::Spill => free,
            // Nobody will ever read to make room.
            Policy::Ends { .. } if self.is_stuck => usize::MAX,
            Policy::Ends { .. } => free,
            Policy::Block => {
                let unread = self.total.saturating_sub(progress.furthest);
                free.min(size.saturating_sub(index(unread)))
            }
        }
    }

    /// What has to be read before the next bytes are moved to disk or given up; `None` if nothing
    /// is about to be.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        let over = self.in_memory().saturating_sub(self.size());
        if self.policy != Policy::Spill || over < BEHIND / 2 || self.moving > 0 {
            return None;
        }
        let from = self.memory_from;
        // Beyond the history what was read is given up, and need not go to disk at all.
        let ahead = if from < HISTORY { over } else { BEHIND + BEHIND / 4 };
        Some(Wanted { from, to: self.total.min(from + ahead as u64) })
    }

    /// Appends what the program wrote.
    pub(crate) fn push(&mut self, data: &[u8]) {
        if let Some(hash) = &mut self.hash {
            hash.update(data);
        }
        let mut rest = data;
        while !rest.is_empty() {
            if self.filling.len() == CHUNK {
                self.close_chunk();
            }
            let (part, after) = rest.split_at(rest.len().min(CHUNK - self.filling.len()));
            self.filling.extend_from_slice(part);
            rest = after;
        }
        self.total += data.len() as u64;
        self.account();
    }

    /// Where to append the next bytes, at most one chunk. `None` if they have to be hashed.
    pub(crate) fn space(&mut self) -> Option<&mut Vec<u8>> {
        if self.hash.is_some() {
            return None;
        }
        if !self.filling.is_empty() {
            self.close_chunk();
        }
        self.filling.reserve_exact(CHUNK);
        Some(&mut self.filling)
    }

    /// Takes note of `count` bytes that were appended to [`Self::space`].
    pub(crate) fn filled(&mut self, count: usize) {
        self.total += count as u64;
        // Whole chunks are shared with readers, not copied.
        if self.filling.len() >= CHUNK {
            self.close_chunk();
        }
        self.account();
    }

    fn close_chunk(&mut self) {
        let bytes = Bytes::from(std::mem::take(&mut self.filling));
        let offset = self.total_of_chunks();
        self.chunks.push_back((offset, bytes));
    }

    fn total_of_chunks(&self) -> u64 {
        self.chunks.back().map_or(self.memory_from, |(offset, bytes)| offset + bytes.len() as u64)
    }

    fn account(&mut self) {
        self.share.set(self.in_memory());
    }

    /// Makes room, as the policy wants it. To be called after a push, and while there is no room.
    pub(crate) fn relieve(&mut self, progress: Progress, spill: &Spill, now: Instant) -> Relief {
        let size = self.size();
        let over = self.in_memory().saturating_sub(size);
        let seen = |position: u64| position.saturating_sub(BEHIND as u64);
        match self.policy {
            Policy::DropOldest => {
                self.drop_from_memory(over);
                Relief::default()
            }
            Policy::Block => {
                let read = index(seen(progress.furthest).saturating_sub(self.memory_from));
                self.drop_from_memory(over.min(read));
                Relief::default()
            }
            Policy::Spill => {
                let reach = Reach {
                    history: HISTORY,
                    read: seen(progress.slowest),
                    most: seen(progress.furthest),
                };
                self.spill(over, &reach, spill, now)
            }
            Policy::Ends { head, tail } => {
                let read = self.total.saturating_sub(tail);
                let reach = Reach { history: head, read, most: read };
                self.spill(over, &reach, spill, now)
            }
        }
    }

    fn spill(&mut self, over: usize, reach: &Reach, spill: &Spill, now: Instant) -> Relief {
        let mut relief = Relief::default();
        if over < BEHIND / 2 || self.moving > 0 {
            return relief;
        }
        let front = self.memory_from;
        let was_read = reach.read.min(front);
        if was_read > self.from.max(reach.history) {
            self.drop_from_disk(was_read);
        }
        if front >= reach.history && reach.read > front {
            self.give_up(index(reach.read - front).min(over));
        } else {
            relief.write = self.begin_move(over, reach, spill, now);
        }
        relief.punch = self.garbage.take_if(|garbage| garbage.bytes >= WORTH_PUNCHING);
        relief
    }

    fn begin_move(
        &mut self,
        over: usize,
        reach: &Reach,
        spill: &Spill,
        now: Instant,
    ) -> Option<Move> {
        if self.chunks.is_empty() {
            self.close_chunk();
        }
        let enough = |taken: &mut usize, bytes: &Bytes| {
            let more = *taken < over;
            *taken += bytes.len();
            more.then(|| bytes.clone())
        };
        let chunks: Vec<Bytes> =
            self.chunks.iter().map(|(_, bytes)| bytes).scan(0, enough).collect();
        let count: usize = chunks.iter().map(Bytes::len).sum();
        let front = self.memory_from;
        let was_read = reach.read >= front + count as u64;
        let broken = self.retry_at.is_some_and(|retry_at| now < retry_at);
        let need = if was_read { Need::History } else { Need::Unread };
        if !broken && spill.reserve(count as u64, need) {
            self.moving = count;
            self.is_stuck = false;
            return Some(Move { offset: front, chunks });
        }
        self.is_stuck = true;
        // A reader that fell behind holds nobody up.
        if reach.most > front {
            self.give_up(index(reach.most - front).min(over));
        } else if reach.most > self.from {
            self.drop_from_disk(reach.most);
        }
        None
    }

    /// Takes note of the end of a move. `written` is false if it failed.
    pub(crate) fn moved(&mut self, written: bool, now: Instant) {
        let count = std::mem::take(&mut self.moving);
        if written {
            self.retry_at = None;
            self.take_from_memory(count);
        } else {
            self.retry_at = Some(now + RETRY);
        }
    }

    /// Drops the oldest `count` bytes in memory, and with them all that is older.
    fn give_up(&mut self, count: usize) {
        self.drop_from_disk(self.memory_from);
        self.drop_from_memory(count);
    }

    /// Drops what lies between the history and `to` on disk.
    fn drop_from_disk(&mut self, to: u64) {
        if self.from <= self.head {
            // Nothing was missing so far: what is on disk becomes the history.
            self.head = self.head.max(self.memory_from.min(self.history()));
        }
        let range = self.from.max(self.head)..to.min(self.memory_from);
        if !range.is_empty() {
            let bytes = range.end - range.start;
            let garbage = self.garbage.get_or_insert(Garbage { range: range.clone(), bytes: 0 });
            garbage.range.end = range.end;
            garbage.bytes += bytes;
        }
        self.from = self.from.max(to).max(self.head);
    }

    const fn history(&self) -> u64 {
        match self.policy {
            Policy::Spill => HISTORY,
            Policy::Ends { head, .. } => head,
            Policy::Block | Policy::DropOldest => 0,
        }
    }

    fn drop_from_memory(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.begin_hash();
        self.take_from_memory(count);
        self.from = self.memory_from;
    }

    /// Begins to hash when the first bytes are lost: nobody can do it later.
    fn begin_hash(&mut self) {
        if self.policy == Policy::DropOldest && self.hash.is_none() {
            let mut hash = Box::new(Sha256::new());
            self.chunks.iter().for_each(|(_, bytes)| hash.update(bytes));
            hash.update(&self.filling);
            self.hash = Some(hash);
        }
    }

    fn take_from_memory(&mut self, count: usize) {
        let mut left = count;
        while let Some((offset, bytes)) = self.chunks.front_mut() {
            if bytes.len() > left {
                bytes.advance(left);
                *offset += left as u64;
                left = 0;
                break;
            }
            left -= bytes.len();
            self.chunks.pop_front();
        }
        self.filling.drain(..left);
        self.memory_from += count as u64;
        self.account();
    }

    /// Gives back memory that was held for more bytes. Returns how many stay.
    pub(crate) fn settle(&mut self) -> usize {
        self.filling.shrink_to_fit();
        self.in_memory()
    }

    /// The hash of the whole stream, where the policy loses bytes of it and it lost some.
    pub(crate) fn sha256(&self) -> Option<[u8; 32]> {
        let hash = self.hash.as_ref().filter(|_| self.from > self.head)?;
        Some((**hash).clone().finalize().into())
    }

    /// At most `limit` bytes at `offset` of the stream.
    pub(crate) fn read(&self, offset: u64, limit: usize) -> Read {
        if offset >= self.total {
            return Read::Nothing;
        }
        if offset >= self.memory_from {
            return Read::Data(self.read_memory(offset, limit));
        }
        let on_disk = |end: u64| Read::OnDisk(index(end - offset).min(limit));
        if self.from <= self.head || offset >= self.from {
            on_disk(self.memory_from)
        } else if offset < self.head {
            on_disk(self.head)
        } else {
            Read::Gone { available_from: self.from }
        }
    }

    fn read_memory(&self, offset: u64, limit: usize) -> Bytes {
        let after = self.chunks.partition_point(|(start, _)| *start <= offset);
        if let Some((start, bytes)) = after.checked_sub(1).map(|index| &self.chunks[index])
            && offset < start + bytes.len() as u64
        {
            let skip = index(offset - start);
            return bytes.slice(skip..bytes.len().min(skip.saturating_add(limit)));
        }
        let part = &self.filling[index(offset - self.total_of_chunks())..];
        Bytes::copy_from_slice(&part[..part.len().min(limit)])
    }

    /// What is there to be read.
    pub(crate) fn ranges(&self) -> Vec<Range> {
        ranges(self.head, self.from, self.total)
    }
}

/// How far bytes matter to whom.
struct Reach {
    /// Below it they stay on disk.
    history: u64,
    /// Below it everybody has read them.
    read: u64,
    /// Below it somebody has.
    most: u64,
}

/// A number of bytes that is known to be in memory, or is cut to what can be.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests;
