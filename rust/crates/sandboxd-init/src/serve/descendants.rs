//! The processes below wardens, found in `/proc` by init.
//!
//! A pid in a list may have come to mean another process. So each is opened first and signalled
//! only if it still is what was listed, by its start time.

use std::fs;
use std::process;
use std::time::{Duration, Instant};

use sandboxd_linux::pidfd;
use sandboxd_linux::process::{kill, signal_everyone};

/// Time between rounds over processes that are being killed: for them to die, and for everybody
/// else to go on.
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    pid: u32,
    parent: u32,
    start_time: u64,
    /// Whether somebody had stopped it.
    stopped: bool,
    /// Whether all of it has ended, and only its status is left.
    dead: bool,
}

/// Signals every process below this one.
pub(super) fn signal(root: u32, signal: i32) {
    below(&[root], &list()).iter().for_each(|entry| send(entry, signal));
}

/// Kills every child of init that is not to stay, and every process below it, however fast they
/// multiply.
///
/// For the moment that a round takes, everything in the sandbox but init is stopped: the kernel
/// delivers a signal to everyone without letting a fork slip through, which no number of passes over
/// `/proc` can do, among hundreds of processes that compete with us for the processors. Nobody can
/// stop init, or keep it from this.
#[derive(Debug)]
pub(super) struct Kill {
    /// Processes that somebody had stopped before, and that stay so.
    stopped: Vec<Entry>,
    next: Instant,
}

impl Kill {
    pub(super) fn new() -> Self {
        // Not wardens, which nobody but an attacker stops.
        let stopped = |entry: &Entry| entry.stopped && entry.parent != process::id();
        Self { stopped: list().into_iter().filter(stopped).collect(), next: Instant::now() }
    }

    pub(super) fn is_due(&self) -> bool {
        self.next <= Instant::now()
    }

    /// One round. Returns whether there was anything left to kill.
    pub(super) fn round(&mut self, stay: &[u32]) -> bool {
        // An error says little: the kernel's answer is about the last one that it came across, which
        // may just have ended.
        let _ = signal_everyone(libc::SIGSTOP);
        let killed = strays(process::id(), stay, &list());
        killed.iter().for_each(|entry| send(entry, libc::SIGKILL));
        // To everyone again, and not to those in the list: a child that was being made when the stop
        // came has it as well, and may not have been listed yet.
        let _ = signal_everyone(libc::SIGCONT);
        self.stopped.iter().for_each(|entry| send(entry, libc::SIGSTOP));
        self.next = Instant::now() + PAUSE;
        killed.iter().any(|entry| !entry.dead)
    }
}

impl Entry {
    const fn is(&self, other: &Self) -> bool {
        self.pid == other.pid && self.start_time == other.start_time
    }
}

/// Kills the process that traces `pid`, a child of ours that was not collected yet.
pub(super) fn kill_tracer(pid: u32) {
    let Ok(status) = fs::read(format!("/proc/{pid}/status")) else { return };
    let Some(tracer) = parse_tracer(&status) else { return };
    // By number, because it is that of a thread, which need not be the first of its process: there is no
    // pidfd for others. A stranger who got it meanwhile would have to be in this sandbox too.
    let _ = kill(tracer, libc::SIGKILL);
}

fn parse_tracer(status: &[u8]) -> Option<u32> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(b"TracerPid:"))?;
    let tracer = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    (tracer > 0).then_some(tracer)
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
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let threads: u32 = fields.nth(15)?.parse().ok()?;
    let start_time = fields.nth(1)?.parse().ok()?;
    // A process whose first thread has ended looks dead while its others go on.
    let dead = matches!(state, "Z" | "X") && threads <= 1;
    Some(Entry { pid, parent, start_time, stopped: state == "T", dead })
}

/// The children of init that do not stay, and those that descend from them.
fn strays(init: u32, stay: &[u32], all: &[Entry]) -> Vec<Entry> {
    let stray = |entry: &&Entry| entry.parent == init && !stay.contains(&entry.pid);
    let mut found: Vec<Entry> = all.iter().filter(stray).copied().collect();
    let roots: Vec<u32> = found.iter().map(|entry| entry.pid).collect();
    found.extend(below(&roots, all));
    found
}

/// Those that descend from one of `roots`.
fn below(roots: &[u32], all: &[Entry]) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut parents = roots.to_vec();
    while let Some(parent) = parents.pop() {
        for entry in all.iter().filter(|entry| entry.parent == parent) {
            // Lists are not made in an instant: a pid that was used twice must not lead in circles.
            if !roots.contains(&entry.pid) && !found.iter().any(|known| known.pid == entry.pid) {
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
        Entry { pid, parent, start_time: 0, stopped: false, dead: false }
    }

    fn pids(entries: &[Entry]) -> Vec<u32> {
        let mut pids: Vec<u32> = entries.iter().map(|entry| entry.pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn a_tracer_is_found_where_there_is_one() {
        assert_eq!(parse_tracer(b"Name:\tTracerPid:\t9\nTracerPid:\t42\nUid:\t0\n"), Some(42));
        assert_eq!(parse_tracer(b"Name:\tx\nTracerPid:\t0\n"), None);
        assert_eq!(parse_tracer(b""), None);
    }

    #[test]
    fn only_descendants_are_found_and_circles_end() {
        let all = [entry(1, 0), entry(2, 1), entry(3, 2), entry(4, 3), entry(5, 1), entry(2, 4)];
        assert_eq!(pids(&below(&[2], &all)), [3, 4]);
    }

    #[test]
    fn whoever_is_not_below_a_warden_that_stays_is_a_stray() {
        let all = [entry(1, 0), entry(2, 1), entry(3, 2), entry(4, 1), entry(5, 4), entry(6, 5)];
        assert_eq!(pids(&strays(1, &[2], &all)), [4, 5, 6]);
        assert!(strays(1, &[2, 4], &all).is_empty());
        // Its parent has ended since: the next round knows whose it is.
        assert!(strays(1, &[2], &[entry(2, 1), entry(9, 8)]).is_empty());
    }

    #[test]
    fn a_hostile_name_does_not_move_the_fields() {
        let stat = b"7 (\xff) 1 (c) T 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 1";
        let expected = Entry { start_time: 123_456, stopped: true, ..entry(7, 3) };
        assert_eq!(parse(7, stat), Some(expected));
    }

    #[test]
    fn a_process_is_dead_when_its_last_thread_is() {
        let dead = |threads: u32| {
            let stat = format!("7 (c) Z 3 7 7 0 -1 4 1 0 0 0 0 0 0 0 20 0 {threads} 0 9 1 1");
            parse(7, stat.as_bytes()).unwrap().dead
        };
        assert!(dead(0) && dead(1));
        assert!(!dead(2));
    }
}
