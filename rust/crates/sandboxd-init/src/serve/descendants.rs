//! The processes below a warden, found in `/proc`.
//!
//! A pid in a list may have come to mean another process. So each is opened first and signalled
//! only if it still is what was listed, by its start time.

use std::fs;
use std::process;

use sandboxd_linux::{pidfd, process::signal_everyone};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    pid: u32,
    parent: u32,
    start_time: u64,
    /// Whether somebody had stopped it.
    stopped: bool,
}

/// Signals every process below this one.
pub(super) fn signal(signal: i32) {
    for entry in below(process::id(), &list()) {
        send(&entry, signal);
    }
}

/// Kills every process below this one, however fast they multiply. To be repeated until none is left.
///
/// For the moment that a round takes, everything in the sandbox but init is stopped: the kernel
/// delivers a signal to everyone without letting a fork slip through, which no number of passes over
/// `/proc` can do, among hundreds of processes that compete with us for the processors.
#[derive(Debug)]
pub(super) struct Kill {
    /// Processes that somebody had stopped before, and that stay so.
    stopped: Vec<Entry>,
}

impl Kill {
    pub(super) fn new() -> Self {
        Self { stopped: list().into_iter().filter(|entry| entry.stopped).collect() }
    }

    /// One round.
    pub(super) fn round(&self) {
        // Nobody else is there to be stopped: then there is nobody to kill either.
        if signal_everyone(libc::SIGSTOP).is_err() {
            return;
        }
        below(process::id(), &list()).iter().for_each(|entry| send(entry, libc::SIGKILL));
        // To everyone again, and not to those in the list: a child that was being made when the stop
        // came has it as well, and may not have been listed yet.
        let _ = signal_everyone(libc::SIGCONT);
        self.stopped.iter().for_each(|entry| send(entry, libc::SIGSTOP));
    }
}

impl Entry {
    const fn is(&self, other: &Self) -> bool {
        self.pid == other.pid && self.start_time == other.start_time
    }
}

fn send(entry: &Entry, signal: i32) {
    let Ok(process) = pidfd::open(entry.pid) else { return };
    let same = read(entry.pid).is_some_and(|now| now.is(entry));
    if same {
        let _ = pidfd::send_signal(process, signal);
    }
}

fn list() -> Vec<Entry> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let names = folder.filter_map(Result::ok).map(|entry| entry.file_name());
    names.filter_map(|name| read(name.to_str()?.parse().ok()?)).collect()
}

fn read(pid: u32) -> Option<Entry> {
    parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(pid: u32, stat: &[u8]) -> Option<Entry> {
    // The second field is a name in parentheses and may itself hold anything.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let stopped = fields.next()? == "T";
    let parent = fields.next()?.parse().ok()?;
    let start_time = fields.nth(17)?.parse().ok()?;
    Some(Entry { pid, parent, start_time, stopped })
}

/// Those that descend from `root`.
fn below(root: u32, all: &[Entry]) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for entry in all.iter().filter(|entry| entry.parent == parent) {
            // Lists are not made in an instant: a pid that was used twice must not lead in circles.
            if entry.pid != root && !found.iter().any(|known| known.pid == entry.pid) {
                found.push(*entry);
                parents.push(entry.pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn entry(pid: u32, parent: u32) -> Entry {
        Entry { pid, parent, start_time: 0, stopped: false }
    }

    #[test]
    fn only_descendants_are_found_and_circles_end() {
        let all = [entry(1, 0), entry(2, 1), entry(3, 2), entry(4, 3), entry(5, 1), entry(2, 4)];
        let mut pids: Vec<u32> = below(2, &all).iter().map(|entry| entry.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [3, 4]);
    }

    #[test]
    fn a_hostile_name_does_not_move_the_fields() {
        let stat = b"7 (\xff) 1 (c) T 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 1";
        let expected = Entry { pid: 7, parent: 3, start_time: 123_456, stopped: true };
        assert_eq!(parse(7, stat), Some(expected));
    }
}
