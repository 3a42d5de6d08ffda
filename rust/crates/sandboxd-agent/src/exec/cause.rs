//! Why an exec ended: decided once, from what was measured.

use std::time::Duration;

use sandboxd_proto::v1::Cause;

/// Why the agent ended an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    Timeout(Duration),
    /// No output for so long.
    IdleOutput {
        limit: Duration,
        lasted: Duration,
    },
    /// So much CPU time was used up.
    CpuLimit(Duration),
    /// More output than this.
    OutputLimit(u64),
    Cancel,
}

/// How the main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(u32),
    Signal(u32),
}

impl Exit {
    /// Reads a status of `wait(2)` of a process that is no more.
    pub(crate) const fn from_wait_status(status: i32) -> Self {
        let [low, code, ..] = status.to_le_bytes();
        // The highest bit says that a core was dumped.
        match low & 0x7f {
            0 => Self::Code(code as u32),
            signal => Self::Signal(signal as u32),
        }
    }
}

/// A limit that was met: its value, and the highest use seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) limit: u64,
    pub(crate) peak: u64,
}

/// What was measured around an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) exit: Exit,
    pub(crate) ended_by: Option<EndedBy>,
    pub(crate) duration: Duration,
    pub(crate) cpu_limit: Option<Duration>,
    pub(crate) cpu_time: Duration,
    /// Both streams together.
    pub(crate) output: u64,
    /// It met the memory limit.
    pub(crate) memory: Option<Hit>,
    /// It met the limit on processes.
    pub(crate) pids: Option<Hit>,
    /// It met the disk limit.
    pub(crate) disk: Option<Hit>,
}

/// An exec that may have met the limits that were met while it ran.
///
/// The kernel counts for the whole sandbox, and so does the writable layer. What others may have
/// done is this exec's only if it ended as one does that met the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) exit: Exit,
    /// It is a shell line, so that 137 is what the shell made of SIGKILL.
    pub(crate) shell_line: bool,
    /// No other program ran in the sandbox at any time while it did.
    pub(crate) alone: bool,
}

impl Suspect {
    /// Whether it met the memory limit, when the kernel killed a process.
    pub(crate) fn met_memory_limit(self) -> bool {
        let killed = match self.exit {
            Exit::Signal(signal) => signal == 9,
            Exit::Code(code) => self.shell_line && code == 137,
        };
        self.alone || killed
    }

    /// Whether it met the limit on processes, when the kernel refused one.
    pub(crate) fn met_pids_limit(self) -> bool {
        self.alone || !self.is_content()
    }

    /// Whether it met the disk limit, when there is no room at its end. One that began without room
    /// fails for reasons of its own as likely.
    pub(crate) fn met_disk_limit(self, had_room: bool) -> bool {
        had_room && !self.is_content()
    }

    fn is_content(self) -> bool {
        self.exit == Exit::Code(0)
    }
}

/// The cause, with the limit if it is one.
pub(crate) fn cause(facts: &Facts) -> (Cause, Option<Hit>) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    match facts.ended_by {
        Some(EndedBy::Timeout(limit)) => {
            let hit = Hit { limit: nanoseconds(limit), peak: nanoseconds(facts.duration) };
            return (Cause::Timeout, Some(hit));
        }
        Some(EndedBy::IdleOutput { limit, lasted }) => {
            let hit = Hit { limit: nanoseconds(limit), peak: nanoseconds(lasted) };
            return (Cause::IdleOutputTimeout, Some(hit));
        }
        Some(EndedBy::CpuLimit(limit)) => {
            let hit =
                Hit { limit: nanoseconds(limit), peak: nanoseconds(facts.cpu_time.max(limit)) };
            return (Cause::CpuLimit, Some(hit));
        }
        Some(EndedBy::OutputLimit(limit)) => {
            return (Cause::OutputLimit, Some(Hit { limit, peak: facts.output }));
        }
        Some(EndedBy::Cancel) => return (Cause::Canceled, None),
        None => {}
    }
    let limits = [
        (Cause::MemoryLimit, facts.memory),
        (Cause::PidsLimit, facts.pids),
        (Cause::DiskLimit, facts.disk),
    ];
    if let Some((cause, hit)) = limits.into_iter().find(|(_, hit)| hit.is_some()) {
        return (cause, hit);
    }
    // It may have met it between two looks: whether a limit counts must not depend on when we look.
    if let Some(limit) = facts.cpu_limit.filter(|limit| facts.cpu_time >= *limit) {
        let hit = Hit { limit: nanoseconds(limit), peak: nanoseconds(facts.cpu_time) };
        return (Cause::CpuLimit, Some(hit));
    }
    match facts.exit {
        Exit::Code(_) => (Cause::Exited, None),
        Exit::Signal(_) => (Cause::Signaled, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        exit: Exit::Code(0),
        ended_by: None,
        duration: Duration::from_secs(3),
        cpu_limit: None,
        cpu_time: Duration::from_secs(2),
        output: 7,
        memory: None,
        pids: None,
        disk: None,
    };
    const HIT: Hit = Hit { limit: 10, peak: 9 };

    #[test]
    fn t13_wait_statuses_are_read_as_the_kernel_writes_them() {
        assert_eq!(Exit::from_wait_status(0), Exit::Code(0));
        assert_eq!(Exit::from_wait_status(7 << 8), Exit::Code(7));
        assert_eq!(Exit::from_wait_status(255 << 8), Exit::Code(255));
        assert_eq!(Exit::from_wait_status(9), Exit::Signal(9));
        assert_eq!(Exit::from_wait_status(11 | 0x80), Exit::Signal(11));
        assert_eq!(Exit::from_wait_status(64), Exit::Signal(64));
    }

    #[test]
    fn an_exit_of_its_own_is_no_limit_whatever_the_number() {
        for code in [0, 1, 124, 137, 255] {
            let facts = Facts { exit: Exit::Code(code), ..FACTS };
            assert_eq!(cause(&facts), (Cause::Exited, None));
        }
        let facts = Facts { exit: Exit::Signal(9), ..FACTS };
        assert_eq!(cause(&facts), (Cause::Signaled, None));
    }

    #[test]
    fn what_the_agent_did_comes_before_what_the_kernel_did() {
        let ended_by = Some(EndedBy::Timeout(Duration::from_secs(2)));
        let facts = Facts { ended_by, memory: Some(HIT), exit: Exit::Signal(9), ..FACTS };
        let hit = Hit { limit: 2_000_000_000, peak: 3_000_000_000 };
        assert_eq!(cause(&facts), (Cause::Timeout, Some(hit)));
        let facts = Facts { ended_by: Some(EndedBy::Cancel), pids: Some(HIT), ..FACTS };
        assert_eq!(cause(&facts), (Cause::Canceled, None));
        let facts = Facts { ended_by: Some(EndedBy::OutputLimit(5)), ..FACTS };
        assert_eq!(cause(&facts), (Cause::OutputLimit, Some(Hit { limit: 5, peak: 7 })));
    }

    #[test]
    fn t16_a_limit_on_cpu_time_counts_whether_it_was_seen_in_time_or_at_the_end() {
        let limit = Duration::from_secs(1);
        let hit = Hit { limit: 1_000_000_000, peak: 2_000_000_000 };
        let late = Facts { cpu_limit: Some(limit), ..FACTS };
        let ended = Facts { ended_by: Some(EndedBy::CpuLimit(limit)), ..late };
        assert_eq!([cause(&late), cause(&ended)], [(Cause::CpuLimit, Some(hit)); 2]);
        let within = Facts { cpu_limit: Some(Duration::from_secs(3)), ..FACTS };
        assert_eq!(cause(&within), (Cause::Exited, None));
    }

    #[test]
    fn silence_is_named_with_how_long_it_was() {
        let (limit, lasted) = (Duration::from_secs(2), Duration::from_millis(2_001));
        let facts = Facts { ended_by: Some(EndedBy::IdleOutput { limit, lasted }), ..FACTS };
        let hit = Hit { limit: 2_000_000_000, peak: 2_001_000_000 };
        assert_eq!(cause(&facts), (Cause::IdleOutputTimeout, Some(hit)));
    }

    const KILLED: Exit = Exit::Signal(9);

    fn suspect(exit: Exit, shell_line: bool, alone: bool) -> Suspect {
        Suspect { exit, shell_line, alone }
    }

    #[test]
    fn what_is_met_while_an_exec_is_alone_is_its_doing_however_it_ends() {
        for exit in [Exit::Code(0), Exit::Code(1), Exit::Signal(11), KILLED] {
            assert!(suspect(exit, false, true).met_memory_limit());
            assert!(suspect(exit, false, true).met_pids_limit());
        }
    }

    #[test]
    fn an_exec_that_was_not_alone_met_the_memory_limit_only_if_it_was_killed() {
        assert!(suspect(KILLED, false, false).met_memory_limit());
        assert!(suspect(Exit::Code(137), true, false).met_memory_limit());
        assert!(!suspect(Exit::Code(137), false, false).met_memory_limit());
        for exit in [Exit::Code(0), Exit::Code(1), Exit::Signal(11)] {
            assert!(!suspect(exit, true, false).met_memory_limit(), "{exit:?}");
        }
    }

    #[test]
    fn an_exec_that_was_not_alone_met_the_limit_on_processes_only_if_it_failed() {
        assert!(!suspect(Exit::Code(0), true, false).met_pids_limit());
        for exit in [Exit::Code(1), Exit::Signal(11)] {
            assert!(suspect(exit, true, false).met_pids_limit(), "{exit:?}");
        }
    }

    #[test]
    fn an_exec_met_the_disk_limit_only_if_it_had_room_and_failed() {
        for alone in [true, false] {
            assert!(suspect(Exit::Code(1), false, alone).met_disk_limit(true));
            assert!(!suspect(Exit::Code(1), false, alone).met_disk_limit(false));
            assert!(!suspect(Exit::Code(0), false, alone).met_disk_limit(true));
        }
    }

    #[test]
    fn of_several_limits_memory_comes_first_and_disk_last() {
        let all = Facts { memory: Some(HIT), pids: Some(HIT), disk: Some(HIT), ..FACTS };
        assert_eq!(cause(&all).0, Cause::MemoryLimit);
        assert_eq!(cause(&Facts { memory: None, ..all }).0, Cause::PidsLimit);
        assert_eq!(cause(&Facts { memory: None, pids: None, ..all }).0, Cause::DiskLimit);
    }
}
