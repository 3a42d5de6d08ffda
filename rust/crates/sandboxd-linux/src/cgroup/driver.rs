//! What both versions of cgroups have in common.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::protocol::Containment;

/// Limits of a sandbox; `None` sets none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory, swap and the files of the writable layer included.
    pub memory_bytes: Option<u64>,
    /// Processes and threads, init included.
    pub pids: Option<u32>,
    /// Processor time, in thousandths of one processor.
    pub cpu_millis: Option<u32>,
}

/// Which limits can be enforced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Controls {
    pub memory: bool,
    pub pids: bool,
    pub cpu: bool,
}

impl Controls {
    /// Those of either.
    #[must_use]
    pub(crate) const fn or(self, other: Self) -> Self {
        Self {
            memory: self.memory || other.memory,
            pids: self.pids || other.pids,
            cpu: self.cpu || other.cpu,
        }
    }

    /// Those of `limits` that are among these controls.
    #[must_use]
    pub(crate) fn select(self, limits: &Limits) -> Limits {
        Limits {
            memory_bytes: limits.memory_bytes.filter(|_| self.memory),
            pids: limits.pids.filter(|_| self.pids),
            cpu_millis: limits.cpu_millis.filter(|_| self.cpu),
        }
    }
}

/// What the kernel counted for a sandbox since it was made. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Processes killed because the sandbox's memory was full.
    pub oom_kills: u64,
    /// Times that a process could not be made because of the limit.
    pub pids_refusals: u64,
    /// Most memory in use at once, if the kernel tells.
    pub memory_peak_bytes: Option<u64>,
}

/// How often the limits of a sandbox were met since it was made. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hits {
    /// As [`Counters::oom_kills`].
    pub oom_kills: u64,
    /// As [`Counters::pids_refusals`].
    pub pids_refusals: u64,
}

/// What a file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    OomKills,
    PidsRefusals,
}

impl Counted {
    /// The line of its file, the same in both versions.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::OomKills => "oom_kill",
            Self::PidsRefusals => "max",
        }
    }
}

impl Counters {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            oom_kills: self.oom_kills + other.oom_kills,
            pids_refusals: self.pids_refusals + other.pids_refusals,
            memory_peak_bytes: self.memory_peak_bytes.or(other.memory_peak_bytes),
        }
    }
}

/// Length of the period in which processor time is shared out. The kernel's default.
pub(crate) const CPU_PERIOD_MICROS: u64 = 100_000;

/// Processor time in each period, in µs. The kernel refuses less than a millisecond.
pub(crate) fn cpu_quota_micros(cpu_millis: u32) -> u64 {
    (u64::from(cpu_millis) * CPU_PERIOD_MICROS / 1_000).max(1_000)
}

/// One version of cgroups. A group is named by its path beneath the agent's tree: `sb-7`, `sb-7/x0`.
pub(crate) trait Driver: Debug + Send + Sync {
    fn controls(&self) -> Controls;

    /// How leaves of this version are entered; `None` if it has none to offer.
    fn containment(&self) -> Option<Containment>;

    /// The directories of the agent's tree, one per hierarchy.
    fn trees(&self) -> Vec<PathBuf>;

    /// Gives this process a group of its own in the tree, heavy enough to get a processor whatever
    /// the sandboxes do, where the hierarchy weighs groups against each other. Best effort.
    fn shelter(&self) {}

    /// Makes a sandbox's group; nothing is left of it on failure.
    fn create(&self, group: &Path, limits: &Limits) -> io::Result<()>;

    /// Changes the share of a sandbox, or takes it away.
    fn set_cpu_limit(&self, group: &Path, millis: Option<u32>) -> io::Result<()>;

    /// Whether [`Self::cpu_nanos`] has an answer.
    fn counts_cpu_time(&self) -> bool;

    /// CPU time of everything that ever was in the leaf, since it was made.
    fn cpu_nanos(&self, leaf: &Path) -> io::Result<Option<u64>>;

    /// Changes the limits of a group that has some already. `None` leaves one as it is.
    fn relimit(&self, group: &Path, limits: &Limits) -> io::Result<()>;

    /// `tasks` files through which the first process enters (v1).
    fn tasks(&self, group: &Path) -> io::Result<Vec<OwnedFd>>;

    /// The directory through which the first process enters (v2).
    fn directory(&self, group: &Path) -> io::Result<Option<OwnedFd>>;

    fn counters(&self, group: &Path) -> io::Result<Counters>;

    /// Files to read [`Hits`] from, again and again.
    fn hit_files(&self, group: &Path) -> io::Result<Vec<(Counted, OwnedFd)>>;

    /// Removes a group with all that is beneath it; `ResourceBusy` while processes are in it.
    fn remove(&self, group: &Path) -> io::Result<()>;

    /// Makes a leaf that processes of the id `root` can be cloned into, and opens it.
    fn create_leaf(&self, leaf: &Path, root: u32) -> io::Result<OwnedFd>;

    /// Kills everything in the leaf, whatever it does. The processes are reaped later.
    fn kill(&self, leaf: &Path) -> io::Result<()>;

    /// Pids, as this process sees them; 0 for one in another pid namespace.
    fn processes(&self, leaf: &Path) -> io::Result<Vec<u32>>;

    /// Threads, likewise.
    fn threads(&self, leaf: &Path) -> io::Result<Vec<u32>>;

    fn is_populated(&self, leaf: &Path) -> io::Result<bool>;

    /// The leaves beneath a sandbox's group.
    fn leaves(&self, group: &Path) -> io::Result<Vec<PathBuf>>;

    /// Begins to stop everything in the leaf, and all that comes into it, until it is thawed. It can
    /// still be killed.
    fn freeze(&self, leaf: &Path) -> io::Result<()>;

    fn thaw(&self, leaf: &Path) -> io::Result<()>;

    /// Whether everything in a leaf that is being frozen has stopped.
    fn is_frozen(&self, leaf: &Path) -> io::Result<bool>;

    /// A file that becomes exceptional (`POLLPRI`) when the leaf empties (v2).
    fn events(&self, leaf: &Path) -> io::Result<Option<OwnedFd>>;
}

/// The value after `key` in a file of `key value` lines.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == key)?.1.trim().parse().ok()
}

/// Pids of a file with one a line.
pub(crate) fn pids(text: &str) -> Vec<u32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}
