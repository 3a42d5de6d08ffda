//! Who a group or a state folder belongs to, readable from its name.

use std::fmt;
use std::fs;

/// A process, told apart from a later one with the same pid by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    pub pid: u32,
    /// In clock ticks since boot, field 22 of `/proc/<pid>/stat`.
    pub start_time: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    ///
    /// If `/proc` is not mounted.
    pub fn current() -> std::io::Result<Self> {
        let pid = std::process::id();
        let start_time = living_since(pid).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(Self { pid, start_time })
    }

    /// Reads a name made by `Display` after `sandboxd-`: `<pid>-<start time>`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (pid, start_time) = name.split_once('-')?;
        Some(Self { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
    }

    /// Reads the name of a group: `sandboxd-<pid>-<start time>`.
    #[must_use]
    pub fn from_group(name: &str) -> Option<Self> {
        Self::parse(name.strip_prefix("sandboxd-")?)
    }

    /// The name of its groups.
    #[must_use]
    pub fn group(&self) -> String {
        format!("sandboxd-{self}")
    }

    /// Whether the process still runs. One that has ended does not, whether it was waited for or not:
    /// where PID 1 reaps nobody, it stays in the process table for ever.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        living_since(self.pid) == Some(self.start_time)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.pid, self.start_time)
    }
}

/// When the process with this pid was started, in clock ticks since boot; `None` if there is none, or
/// it has ended.
#[must_use]
pub fn living_since(pid: u32) -> Option<u64> {
    // Bytes: the name of a process need not be text.
    parse_living(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_living(stat: &[u8]) -> Option<u64> {
    // The second field is a name in parentheses and may itself hold spaces and parentheses.
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
    // Dead: not collected yet, or being collected.
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_its_namesake_of_another_time_is_not() {
        let owner = Owner::current().unwrap();
        assert!(owner.is_alive());
        assert!(!Owner { start_time: owner.start_time + 1, ..owner }.is_alive());
        assert_eq!(Owner::from_group(&owner.group()), Some(owner));
    }

    #[test]
    fn a_hostile_process_name_does_not_move_the_fields() {
        let stat = b"7 (a) b (\xff) Z) R 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 1";
        assert_eq!(parse_living(stat), Some(123_456));
    }

    #[test]
    fn a_process_that_nobody_has_waited_for_is_dead_all_the_same() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let owner = Owner { pid, start_time: living_since(pid).unwrap() };
        assert!(owner.is_alive());
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while owner.is_alive() {
            assert!(std::time::Instant::now() < deadline, "it is a zombie, and counts as alive");
        }
        assert!(fs::exists(format!("/proc/{pid}/stat")).unwrap());
        child.wait().unwrap();
    }
}
