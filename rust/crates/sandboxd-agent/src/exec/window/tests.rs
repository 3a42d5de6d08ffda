use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const MIB: usize = 1024 * 1024;

/// A window with its disk, on which moves take effect when the test says so.
struct Rig {
    window: Window,
    spill: Arc<Spill>,
    written: VecDeque<Move>,
    now: Instant,
}

impl Rig {
    fn new(policy: Policy, size: usize) -> Self {
        Self::with_disk(policy, size, 1 << 32)
    }

    fn with_disk(policy: Policy, size: usize, disk: u64) -> Self {
        let space = Space::with_limits(Some(std::env::temp_dir()), disk, 1 << 30);
        Self {
            window: Window::new(policy, size, &space),
            spill: Spill::new(&space),
            written: VecDeque::new(),
            now: Instant::now(),
        }
    }

    /// As the driver does it: makes room, then pushes what fits. Returns how much that was.
    fn push(&mut self, data: &[u8], read: u64) -> usize {
        self.push_between(data, read, read)
    }

    fn push_between(&mut self, data: &[u8], slowest: u64, furthest: u64) -> usize {
        let progress = Progress { slowest, furthest };
        let relief = self.window.relieve(progress, &self.spill, self.now);
        self.written.extend(relief.write);
        if let Some(garbage) = relief.punch {
            self.spill.punch(0, garbage.range.start, garbage.range.end).unwrap();
            self.spill.release(garbage.bytes);
        }
        let fits = data.len().min(self.window.room(progress));
        self.window.push(&data[..fits]);
        fits
    }

    fn finish_moves(&mut self) {
        while let Some(bytes) = self.written.pop_front() {
            self.spill.write(0, bytes.offset, &bytes.chunks).unwrap();
            self.window.moved(true, self.now);
        }
    }

    /// Pushes everything, as long as something moves.
    fn push_all(&mut self, data: &[u8], mut read: impl FnMut(u64) -> u64) -> usize {
        let mut done = 0;
        for _ in 0..10_000 {
            let end = data.len().min(done + 64 * 1024);
            let position = read(self.window.total());
            let fits = self.push(&data[done..end], position);
            let moves = !self.written.is_empty();
            self.finish_moves();
            done += fits;
            if done == data.len() || (fits == 0 && !moves) {
                return done;
            }
        }
        panic!("it does not end");
    }

    fn read(&self, offset: u64) -> Option<Vec<u8>> {
        match self.window.read(offset, 100_000) {
            Read::Data(data) => Some(data.to_vec()),
            Read::OnDisk(length) => Some(self.spill.read(0, offset, length).unwrap().to_vec()),
            Read::Nothing | Read::Gone { .. } => None,
        }
    }

    fn check_ranges(&self, whole: &[u8]) {
        for range in self.window.ranges() {
            let mut at = range.start;
            while at < range.end {
                let part = self.read(at).unwrap();
                let start = index(at);
                assert_eq!(part, whole[start..start + part.len()], "at {at}");
                at += part.len() as u64;
            }
        }
    }
}

fn stream(length: usize) -> Vec<u8> {
    let period: Vec<u8> = (0..251).collect();
    let mut bytes = period.repeat(length / period.len() + 1);
    bytes.truncate(length);
    bytes
}

#[test]
fn h4_what_nobody_reads_goes_to_disk_and_all_of_it_can_be_read() {
    let whole = stream(5 * MIB + 123);
    let mut rig = Rig::new(Policy::Spill, MIB);
    assert_eq!(rig.push_all(&whole, |_| 0), whole.len());
    assert_eq!(rig.window.ranges(), [0..whole.len() as u64]);
    assert!(rig.window.in_memory() <= MIB + BEHIND, "{}", rig.window.in_memory());
    rig.check_ranges(&whole);
    assert_eq!(rig.read(whole.len() as u64), None);
}

#[test]
fn what_was_read_stays_on_disk_until_the_history_is_full() {
    let whole = stream(index(HISTORY) + 9 * MIB);
    let mut rig = Rig::new(Policy::Spill, MIB);
    assert_eq!(rig.push_all(&whole, |total| total), whole.len());
    let ranges = rig.window.ranges();
    let (head, tail) = (&ranges[0], &ranges[1]);
    assert_eq!((ranges.len(), head.start, tail.end), (2, 0, whole.len() as u64));
    assert!(head.end >= HISTORY - MIB as u64 && head.end <= HISTORY, "{head:?}");
    assert!(tail.end - tail.start >= (MIB - BEHIND) as u64, "{tail:?}");
    assert!(rig.spill.used() <= HISTORY + MIB as u64);
    rig.check_ranges(&whole);
    assert_eq!(rig.window.read(head.end, 1), Read::Gone { available_from: tail.start });
}

#[test]
fn h3_a_reader_that_fell_behind_reads_all_of_it_from_disk_and_then_it_is_given_back() {
    let whole = stream(index(HISTORY) + 20 * MIB);
    let mut rig = Rig::new(Policy::Spill, MIB);
    let stalled = HISTORY + MIB as u64;
    assert_eq!(rig.push_all(&whole, |total| total.min(stalled)), whole.len());
    let from = stalled - BEHIND as u64;
    assert_eq!(rig.window.ranges(), [0..HISTORY, from..whole.len() as u64]);
    let before = rig.spill.used();
    rig.check_ranges(&whole);
    // It catches up.
    let more = stream(9 * MIB);
    assert_eq!(rig.push_all(&more, |total| total), more.len());
    assert!(rig.spill.used() + 10 * (MIB as u64) < before);
}

#[test]
fn where_the_disk_is_full_the_program_waits_for_the_reader_that_is_furthest_ahead() {
    let whole = stream(20 * MIB);
    let mut rig = Rig::with_disk(Policy::Spill, MIB, 8 * MIB as u64);
    let done = rig.push_all(&whole, |_| 0);
    assert!((4 * MIB..7 * MIB).contains(&done), "{done}");
    assert_eq!(rig.window.ranges(), [0..done as u64]);
    // One reads on, the other never does.
    let mut at = done;
    for _ in 0..1000 {
        let end = whole.len().min(at + 64 * 1024);
        let position = at as u64;
        at += rig.push_between(&whole[at..end], 0, position);
        rig.finish_moves();
    }
    assert_eq!(at, whole.len());
    let ranges = rig.window.ranges();
    assert!(ranges.len() == 2 && ranges[1].end == whole.len() as u64, "{ranges:?}");
    rig.check_ranges(&whole);
}

#[test]
fn a_disk_that_fails_holds_the_program_back_and_loses_nothing() {
    let whole = stream(3 * MIB);
    let mut rig = Rig::new(Policy::Spill, MIB);
    let mut done = 0;
    for _ in 0..100 {
        let end = whole.len().min(done + 64 * 1024);
        done += rig.push(&whole[done..end], 0);
        if let Some(failed) = rig.written.pop_front() {
            let count: usize = failed.chunks.iter().map(Bytes::len).sum();
            rig.spill.release(count as u64);
            rig.window.moved(false, rig.now);
        }
    }
    assert!(done <= MIB + BEHIND, "{done}");
    rig.check_ranges(&whole);
    rig.now += RETRY;
    let rest = whole[done..].to_vec();
    assert_eq!(rig.push_all(&rest, |_| 0), rest.len());
    assert_eq!(rig.window.ranges(), [0..whole.len() as u64]);
    rig.check_ranges(&whole);
}

#[test]
fn bytes_that_are_read_into_it_lie_between_those_that_are_pushed() {
    let whole = stream(5 * CHUNK + 20);
    let mut rig = Rig::new(Policy::Spill, MIB);
    let mut at = 0;
    for (length, pushed) in [
        (10, true),
        (CHUNK, false),
        (CHUNK, false),
        (7, false),
        (3, true),
        (CHUNK, true),
        (CHUNK, false),
    ] {
        let part = &whole[at..at + length];
        if pushed {
            rig.window.push(part);
        } else {
            rig.window.space().unwrap().extend_from_slice(part);
            rig.window.filled(length);
        }
        at += length;
        assert_eq!(rig.window.total(), at as u64);
        assert_eq!(rig.window.ranges(), [0..at as u64]);
        rig.check_ranges(&whole);
    }
}

#[test]
fn h4_output_leaves_memory_once_a_reader_that_reads_along_has_it() {
    let whole = stream(2 * MIB);
    let mut rig = Rig::new(Policy::Spill, MIB);
    rig.window.push(&whole[..MIB]);
    assert!(rig.window.wanted().is_none(), "there is room");
    rig.window.push(&whole[MIB..MIB + BEHIND]);
    let wanted = rig.window.wanted().unwrap();
    assert_eq!((wanted.from, wanted.to), (0, BEHIND as u64));
    rig.push(b"", wanted.to);
    assert!(rig.window.wanted().is_none(), "it is on its way to disk");
    let mut other = Rig::new(Policy::Block, MIB);
    other.window.push(&whole);
    assert!(other.window.wanted().is_none());
}

#[test]
fn block_holds_the_program_back_until_somebody_has_read() {
    let mut rig = Rig::new(Policy::Block, 100);
    assert_eq!(rig.push(&stream(300), 0), 100);
    assert_eq!(rig.push(b"x", 0), 0);
    assert_eq!(rig.push(b"x", 30), 1);
    assert_eq!(rig.window.ranges(), [0..101], "whoever was cut off asks again");
    let whole = stream(3 * MIB);
    let mut rig = Rig::new(Policy::Block, MIB);
    assert_eq!(rig.push_all(&whole, |total| total), whole.len());
    assert!(rig.window.in_memory() <= MIB + BEHIND);
    assert_eq!(rig.spill.used(), 0);
    let ranges = rig.window.ranges();
    assert!(ranges[0].start <= ranges[0].end - BEHIND as u64);
    rig.check_ranges(&whole);
}

#[test]
fn drop_oldest_never_waits_and_keeps_the_newest_and_the_hash_of_all() {
    let whole = stream(1000);
    let mut rig = Rig::new(Policy::DropOldest, 100);
    for part in whole.chunks(7) {
        assert_eq!(rig.push(part, 0), part.len());
    }
    rig.push(b"", 0);
    assert_eq!(rig.window.ranges(), [900..1000]);
    assert_eq!(rig.window.sha256(), Some(Sha256::digest(&whole).into()));
    rig.check_ranges(&whole);
    let mut rig = Rig::new(Policy::DropOldest, 100);
    rig.push(&whole[..100], 0);
    rig.push(b"", 0);
    assert_eq!((rig.window.sha256(), rig.window.ranges()), (None, vec![0..100]));
}

#[test]
fn the_ends_of_a_run_stay_on_disk_and_the_middle_is_dropped() {
    let whole = stream(12 * MIB);
    let (head, tail) = (3 * MIB as u64, 2 * MIB as u64);
    let mut rig = Rig::new(Policy::Ends { head, tail }, 64 * 1024);
    assert_eq!(rig.push_all(&whole, |_| 0), whole.len());
    let ranges = rig.window.ranges();
    assert!(ranges[0].end >= head, "{ranges:?}");
    assert!(ranges[1].start <= whole.len() as u64 - tail, "{ranges:?}");
    assert!(rig.window.in_memory() <= 64 * 1024 + BEHIND);
    assert_eq!(rig.window.sha256(), Some(Sha256::digest(&whole).into()));
    rig.check_ranges(&whole);
    let mut none = Rig::with_disk(Policy::Ends { head, tail }, 64 * 1024, 0);
    assert_eq!(none.push_all(&whole, |_| 0), whole.len(), "nobody would ever make room");
}

#[test]
fn while_memory_is_short_a_window_is_small() {
    let space = Space::with_limits(Some(std::env::temp_dir()), 1 << 32, 3 * MIB);
    let mut other = Share::new(&space);
    other.set(3 * MIB);
    let window = Window::new(Policy::Block, 8 * MIB, &space);
    let progress = Progress { slowest: 0, furthest: 0 };
    assert_eq!(window.room(progress), SMALL);
    other.set(0);
    assert_eq!(window.room(progress), 8 * MIB);
}

proptest! {
    #[test]
    fn a_reader_that_follows_gets_every_byte_once(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..20),
        limit in 1_usize..20,
    ) {
        let mut rig = Rig::new(Policy::Spill, 4096);
        let mut seen = Vec::new();
        for chunk in &chunks {
            rig.push(chunk, seen.len() as u64);
            while let Read::Data(data) = rig.window.read(seen.len() as u64, limit) {
                seen.extend_from_slice(&data);
            }
        }
        prop_assert_eq!(rig.window.total(), seen.len() as u64);
        prop_assert_eq!(seen, chunks.concat());
    }

    #[test]
    fn whatever_is_kept_is_what_was_written(
        policy in prop_oneof![
            Just(Policy::Spill),
            Just(Policy::Block),
            Just(Policy::DropOldest),
            Just(Policy::Ends { head: 700_000, tail: 500_000 }),
        ],
        size in 4096_usize..300_000,
        disk in 0_u64..4_000_000,
        steps in prop::collection::vec((1_usize..200_000, 0_u64..3_000_000, 0_u64..3_000_000, any::<bool>()), 1..40),
    ) {
        let whole = stream(4_000_000);
        let mut rig = Rig::with_disk(policy, size, disk);
        let mut at = 0;
        let mut read = [0, 0];
        for (length, slow, fast, finish) in steps {
            let total = rig.window.total();
            read = [read[0].max(slow.min(total)), read[1].max(fast.min(total))];
            let end = whole.len().min(at + length);
            at += rig.push_between(&whole[at..end], read[0].min(read[1]), read[0].max(read[1]));
            if finish {
                rig.finish_moves();
            }
        }
        rig.finish_moves();
        prop_assert_eq!(rig.window.total(), at as u64);
        rig.check_ranges(&whole);
        if policy == Policy::Block || policy == Policy::Spill {
            let unread = read[0].max(read[1]).saturating_sub(BEHIND as u64);
            let last = rig.window.ranges().last().cloned().unwrap_or(0..0);
            prop_assert!(last.start <= unread, "{last:?} misses {unread}");
        }
    }
}
