//! The execs of one sandbox by the id that their caller chose: what makes a start happen once.
//!
//! A result is kept for a while after the end, so that a caller whose connection broke finds it. What
//! is kept is bounded by time, number and bytes; the oldest gives way first. An id whose result gave
//! way stays taken all the same: a caller that sends the command again hears that it ran.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandboxd_proto::{CallError, ErrorCode};

use super::forgotten::Forgotten;

/// How long a result is kept after the end of its exec. Above any time that a client takes to mend
/// its connection.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(60);

/// How many results are kept for a sandbox.
pub(crate) const KEPT_RESULTS: usize = 1_024;

/// How much output is kept in memory for a sandbox. Above the largest result of one `Run` with usual
/// limits; the newest result is kept whatever its size.
pub(crate) const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// The same on disk. As much as two execs may have there.
pub(crate) const KEPT_ON_DISK: u64 = 1024 * 1024 * 1024;

/// How much an exec that ended still takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    pub(crate) memory: usize,
    pub(crate) disk: u64,
}

/// Which command an id stands for.
pub(crate) type Fingerprint = u64;

/// What a start finds under its id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start<E> {
    /// Nothing: the exec is entered now.
    New,
    /// This very command.
    Known(E),
    /// Another command.
    Conflict,
    /// A command that has run, with a result that is not kept any more.
    Forgotten,
    /// As many execs run as may.
    Full,
}

/// The error of a call about [`Start::Forgotten`].
pub(crate) fn forgotten(exec_id: &str) -> CallError {
    let message = format!(
        "exec {exec_id:?} has run and its result is not kept any more: the last {KEPT_RESULTS} \
         results of a sandbox are, for {} seconds, and {} MiB of output in memory",
        KEPT_FOR.as_secs(),
        KEPT_BYTES >> 20
    );
    CallError::new(ErrorCode::ExecExpired, message).with_reason("forgotten").maybe_run(true)
}

/// What a call finds under an id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Find<E> {
    Known(E),
    /// As [`Start::Forgotten`].
    Forgotten,
    Unknown,
}

/// The table. `E` is a cheap handle.
#[derive(Debug)]
pub(crate) struct ExecTable<E> {
    entries: HashMap<Arc<str>, (Fingerprint, E)>,
    /// Oldest first.
    finished: VecDeque<Finished>,
    kept: Size,
    forgotten: Forgotten,
    running_limit: usize,
    starts: u64,
}

#[derive(Debug)]
struct Finished {
    id: Arc<str>,
    at: Instant,
    size: Size,
}

impl<E: Clone> ExecTable<E> {
    /// A table that lets `running_limit` execs run at once.
    pub(crate) fn new(running_limit: usize) -> Self {
        Self {
            entries: HashMap::new(),
            finished: VecDeque::new(),
            kept: Size::default(),
            forgotten: Forgotten::default(),
            running_limit,
            starts: 0,
        }
    }

    /// Enters `exec` under `id` unless that is taken.
    pub(crate) fn start(&mut self, id: &Arc<str>, fingerprint: Fingerprint, exec: E) -> Start<E> {
        match self.entries.get(id) {
            Some((known, exec)) if *known == fingerprint => return Start::Known(exec.clone()),
            Some(_) => return Start::Conflict,
            None => {}
        }
        if self.forgotten.contains(id) {
            return Start::Forgotten;
        }
        if self.running() >= self.running_limit {
            return Start::Full;
        }
        self.entries.insert(Arc::clone(id), (fingerprint, exec));
        self.starts += 1;
        Start::New
    }

    pub(crate) fn find(&self, id: &str) -> Find<E> {
        match self.entries.get(id) {
            Some((_, exec)) => Find::Known(exec.clone()),
            None if self.forgotten.contains(id) => Find::Forgotten,
            None => Find::Unknown,
        }
    }

    /// Forgets an exec that never ran, so that its id can be used again.
    pub(crate) fn withdraw(&mut self, id: &str) {
        self.entries.remove(id);
    }

    /// Notes the end of an exec, and what it still takes. What gives way is returned, to be dropped
    /// where that costs nobody time.
    pub(crate) fn finish(&mut self, id: &Arc<str>, size: Size, now: Instant) -> Vec<E> {
        self.finished.push_back(Finished { id: Arc::clone(id), at: now, size });
        self.kept.memory += size.memory;
        self.kept.disk += size.disk;
        self.prune(now)
    }

    /// Forgets what has been kept long enough.
    pub(crate) fn prune(&mut self, now: Instant) -> Vec<E> {
        let mut given_up = Vec::new();
        while let Some(oldest) = self.finished.front() {
            let expired = now.saturating_duration_since(oldest.at) >= KEPT_FOR;
            let crowded = self.finished.len() > KEPT_RESULTS
                || (self.finished.len() > 1
                    && (self.kept.memory > KEPT_BYTES || self.kept.disk > KEPT_ON_DISK));
            if !expired && !crowded {
                break;
            }
            if let Some(oldest) = self.finished.pop_front() {
                self.kept.memory -= oldest.size.memory;
                self.kept.disk -= oldest.size.disk;
                given_up.extend(self.entries.remove(&oldest.id).map(|(_, exec)| exec));
                self.forgotten.remember(&oldest.id);
            }
        }
        given_up
    }

    /// Execs that have not ended.
    pub(crate) fn running(&self) -> usize {
        self.entries.len() - self.finished.len()
    }

    /// How many execs were ever entered, those included that never ran.
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    /// All that are known, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &E)> {
        self.entries.iter().map(|(id, (_, exec))| (&**id, exec))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn memory(memory: usize) -> Size {
        Size { memory, disk: 0 }
    }

    fn id(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    #[test]
    fn r1_an_id_starts_one_command_and_finds_it_again_after_its_end() {
        let now = Instant::now();
        let mut table = ExecTable::new(8);
        assert_eq!(table.start(&id("a"), 1, "first"), Start::New);
        assert_eq!(table.start(&id("a"), 1, "again"), Start::Known("first"));
        assert_eq!(table.start(&id("a"), 2, "other"), Start::Conflict);
        table.finish(&id("a"), memory(10), now);
        assert_eq!(table.start(&id("a"), 1, "late"), Start::Known("first"));
        assert_eq!(table.prune(now + KEPT_FOR), ["first"]);
        assert_eq!(table.start(&id("a"), 1, "new"), Start::Forgotten, "it has run, long ago");
    }

    #[test]
    fn a_command_that_never_ran_leaves_its_id_free() {
        let mut table = ExecTable::new(8);
        table.start(&id("a"), 1, ());
        table.withdraw("a");
        assert_eq!(table.start(&id("a"), 2, ()), Start::New);
    }

    #[test]
    fn every_exec_that_is_entered_counts_as_a_start() {
        let mut table = ExecTable::new(1);
        for (name, starts) in [("a", 1), ("a", 1), ("full", 1)] {
            table.start(&id(name), 1, ());
            assert_eq!(table.starts(), starts);
        }
        table.withdraw("a");
        table.start(&id("b"), 1, ());
        table.finish(&id("b"), memory(0), Instant::now());
        assert_eq!(table.starts(), 2, "an end takes nothing back");
    }

    #[test]
    fn no_more_run_at_once_than_may() {
        let mut table = ExecTable::new(1);
        assert_eq!(table.start(&id("a"), 1, ()), Start::New);
        assert_eq!(table.start(&id("b"), 1, ()), Start::Full);
        table.finish(&id("a"), memory(0), Instant::now());
        assert_eq!(table.start(&id("b"), 1, ()), Start::New);
    }

    #[test]
    fn the_newest_result_is_kept_whatever_its_size() {
        let mut table = ExecTable::new(8);
        for name in ["a", "b"] {
            table.start(&id(name), 1, name);
        }
        let now = Instant::now();
        assert!(table.finish(&id("a"), memory(KEPT_BYTES + 1), now).is_empty());
        assert_eq!(table.finish(&id("b"), memory(KEPT_BYTES + 1), now), ["a"]);
        assert_eq!(table.find("b"), Find::Known("b"));
    }

    #[test]
    fn output_on_disk_gives_way_like_that_in_memory() {
        let now = Instant::now();
        let mut table = ExecTable::new(8);
        for name in ["a", "b"] {
            table.start(&id(name), 1, name);
        }
        let size = Size { memory: 0, disk: KEPT_ON_DISK };
        assert!(table.finish(&id("a"), size, now).is_empty());
        assert_eq!(table.finish(&id("b"), size, now), ["a"]);
    }

    #[test]
    fn r1_an_id_whose_result_gave_way_is_not_run_again() {
        let now = Instant::now();
        let mut table = ExecTable::new(8);
        for number in 0..=KEPT_RESULTS {
            let id = id(&number.to_string());
            assert_eq!(table.start(&id, 1, number), Start::New);
            table.finish(&id, memory(0), now);
        }
        assert_eq!((table.find("0"), table.find("1")), (Find::Forgotten, Find::Known(1)));
        assert_eq!(table.start(&id("0"), 1, 0), Start::Forgotten);
        assert_eq!(table.start(&id("0"), 2, 0), Start::Forgotten);
        table.prune(now + KEPT_FOR);
        assert_eq!((table.find("0"), table.find("1")), (Find::Forgotten, Find::Forgotten));
        assert_eq!(table.find("never"), Find::Unknown);
    }

    proptest! {
        #[test]
        fn r1_no_id_runs_twice_however_late_a_client_sends_it_again(
            events in prop::collection::vec((0_u32..40, 0_usize..KEPT_BYTES, 0_u64..9_000), 0..200),
        ) {
            let mut table = ExecTable::new(usize::MAX);
            let mut now = Instant::now();
            let mut ran = std::collections::HashSet::new();
            for (number, bytes, wait) in events {
                now += Duration::from_millis(wait);
                table.prune(now);
                let name = id(&number.to_string());
                let taken = ran.contains(&number);
                match table.start(&name, 0, number) {
                    Start::New => {
                        prop_assert!(!taken, "{} ran twice", number);
                        table.finish(&name, memory(bytes), now);
                        ran.insert(number);
                    }
                    Start::Known(_) | Start::Forgotten => prop_assert!(taken),
                    Start::Conflict | Start::Full => prop_assert!(false, "neither can be"),
                }
            }
        }

        #[test]
        fn what_is_kept_stays_within_its_bounds(sizes in prop::collection::vec(0_usize..KEPT_BYTES, 0..60)) {
            let mut table = ExecTable::new(usize::MAX);
            let start = Instant::now();
            for (number, size) in sizes.iter().enumerate() {
                let name = id(&number.to_string());
                prop_assert_eq!(table.start(&name, 0, *size), Start::New);
                table.finish(&name, memory(*size), start + Duration::from_secs(number as u64 * 3));
                let kept: usize = table.iter().map(|(_, size)| *size).sum();
                let count = table.iter().count();
                prop_assert!(kept <= KEPT_BYTES || count == 1);
                prop_assert!(count <= 20, "20 × 3 s are a minute");
                prop_assert_eq!(table.running(), 0);
            }
        }
    }
}
