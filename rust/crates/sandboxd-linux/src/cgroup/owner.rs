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
        let stat = fs::read_to_string("/proc/self/stat")?;
        let start_time = start_time(&stat).ok_or(std::io::ErrorKind::InvalidData)?;
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

    /// Whether the process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.pid))
            .is_ok_and(|stat| start_time(&stat) == Some(self.start_time))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.pid, self.start_time)
    }
}

fn start_time(stat: &str) -> Option<u64> {
    // The second field is a name in parentheses and may itself hold spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
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
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 1";
        assert_eq!(start_time(stat), Some(123_456));
    }
}
