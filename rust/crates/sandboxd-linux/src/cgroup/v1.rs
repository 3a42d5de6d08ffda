//! Version 1: a hierarchy per controller, entered by writing to each one's `tasks`.
//!
//! `tasks` and not `cgroup.procs`: the latter takes a machine-wide lock for writing, with 7 to
//! 15 ms at the 99th percentile where the former has 1 to 4. The caller has one thread.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::driver::{
    CPU_PERIOD_MICROS, Controls, Counted, Counters, Driver, Limits, cpu_quota_micros, keyed, pids,
};
use super::files::Files;
use super::layout::Layout;
use super::remove::{leaves, remove_directories, undo};
use super::v2::ASIDE;
use crate::pidfd;
use crate::protocol::Containment;

/// How long the kernel may take to freeze a leaf. Only a task in an uninterruptible wait takes
/// more than milliseconds, and killing goes on without the freeze then.
const FREEZE_TIMEOUT: Duration = Duration::from_millis(200);

/// Passes over a leaf that keeps growing while it is killed. A frozen one needs one.
const KILL_PASSES: u32 = 64;

/// Weight of one ordinary task, and of a group until it is told otherwise.
const TASK_SHARES: usize = 1_024;

/// Busy tasks for each processor that all sandboxes together weigh as much as. Left alone, the tree
/// would get the share of a single task on a busy machine, and every sandbox a fraction of that.
const TREE_TASKS_PER_CPU: usize = 8;

/// Sandboxes that the agent weighs as much as: it uses little, and has to answer at once.
const AGENT_TASKS: usize = 64;

/// The v1 hierarchies in which this process may make groups.
#[derive(Debug)]
pub(super) struct V1<F> {
    files: F,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
    freezer: Option<PathBuf>,
}

impl<F: Files> V1<F> {
    /// Makes the agent's tree in every hierarchy that lets it; `None` if none does.
    pub(super) fn set_up(files: F, layout: &Layout, tree: &str) -> Option<Self> {
        let mut made: Vec<PathBuf> = Vec::new();
        // Controllers mounted together share a directory: it is made once.
        let mut make = |controller: &str| {
            let directory = layout.v1(controller)?.join(tree);
            if !made.contains(&directory) {
                files.create_directory(&directory).ok()?;
                made.push(directory.clone());
            }
            Some(directory)
        };
        let memory = make("memory");
        let pids = make("pids");
        let cpu = make("cpu");
        let freezer = make("freezer");
        [&memory, &pids, &cpu, &freezer].iter().any(|tree| tree.is_some()).then_some(())?;
        if let Some(tree) = &cpu {
            // Best effort: without it everything works, only slower on a busy machine.
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            let _ = weigh(&files, tree, TREE_TASKS_PER_CPU * cpus);
        }
        Some(Self { files, memory, pids, cpu, freezer })
    }

    fn limit(&self, group: &Path, limits: &Limits) -> io::Result<()> {
        if let (Some(tree), Some(bytes)) = (&self.memory, limits.memory_bytes) {
            let directory = tree.join(group);
            let bytes = bytes.to_string();
            self.files.write(&directory.join("memory.limit_in_bytes"), &bytes)?;
            // Memory and swap together; absent where the kernel does not count swap.
            let with_swap = directory.join("memory.memsw.limit_in_bytes");
            if self.files.exists(&with_swap) {
                self.files.write(&with_swap, &bytes)?;
            }
        }
        if let (Some(tree), Some(count)) = (&self.pids, limits.pids) {
            self.files.write(&tree.join(group).join("pids.max"), &count.to_string())?;
        }
        if let (Some(tree), Some(millis)) = (&self.cpu, limits.cpu_millis) {
            let directory = tree.join(group);
            let period = directory.join("cpu.cfs_period_us");
            self.files.write(&period, &CPU_PERIOD_MICROS.to_string())?;
            let quota = cpu_quota_micros(millis).to_string();
            self.files.write(&directory.join("cpu.cfs_quota_us"), &quota)?;
        }
        Ok(())
    }

    /// The hierarchies that limit, each once, without the freezer.
    fn limiting(&self) -> Vec<PathBuf> {
        let each = [&self.memory, &self.pids, &self.cpu].into_iter().flatten();
        let mut trees: Vec<PathBuf> = Vec::new();
        for tree in each {
            if !trees.contains(tree) {
                trees.push(tree.clone());
            }
        }
        trees
    }

    fn freezer(&self) -> io::Result<&PathBuf> {
        self.freezer.as_ref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn freeze_to_kill(&self, leaf: &Path) -> io::Result<()> {
        self.freeze(leaf)?;
        let deadline = Instant::now() + FREEZE_TIMEOUT;
        while !self.is_frozen(leaf)? && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

/// Gives a group the weight of so many tasks.
fn weigh(files: &impl Files, group: &Path, tasks: usize) -> io::Result<()> {
    files.write(&group.join("cpu.shares"), &(TASK_SHARES * tasks).to_string())
}

impl<F: Files> Driver for V1<F> {
    fn controls(&self) -> Controls {
        Controls {
            memory: self.memory.is_some(),
            pids: self.pids.is_some(),
            cpu: self.cpu.is_some(),
        }
    }

    fn containment(&self) -> Option<Containment> {
        self.freezer.as_ref().map(|_| Containment::CgroupTasks)
    }

    fn trees(&self) -> Vec<PathBuf> {
        let mut trees = self.limiting();
        trees.extend(self.freezer.clone().filter(|tree| !trees.contains(tree)));
        trees
    }

    fn shelter(&self) {
        let Some(tree) = &self.cpu else { return };
        let aside = tree.join(ASIDE);
        let moved = self
            .files
            .create_directory(&aside)
            .and_then(|()| weigh(&self.files, &aside, AGENT_TASKS))
            .and_then(|()| self.files.write(&aside.join("cgroup.procs"), "0"));
        if moved.is_err() {
            undo(&self.files, &[aside]);
        }
    }

    fn create(&self, group: &Path, limits: &Limits) -> io::Result<()> {
        let directories: Vec<PathBuf> = self.trees().iter().map(|tree| tree.join(group)).collect();
        let made = directories
            .iter()
            .try_for_each(|directory| self.files.create_directory(directory))
            .and_then(|()| self.limit(group, limits));
        made.inspect_err(|_| undo(&self.files, &directories))
    }

    fn set_cpu_limit(&self, group: &Path, millis: Option<u32>) -> io::Result<()> {
        let Some(tree) = &self.cpu else { return Ok(()) };
        let quota = millis.map_or("-1".to_owned(), |millis| cpu_quota_micros(millis).to_string());
        self.files.write(&tree.join(group).join("cpu.cfs_quota_us"), &quota)
    }

    fn counts_cpu_time(&self) -> bool {
        // A freezer counts nothing, and a group of another hierarchy would have to be entered by every
        // exec.
        false
    }

    fn cpu_nanos(&self, _leaf: &Path) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn relimit(&self, group: &Path, limits: &Limits) -> io::Result<()> {
        if let (Some(tree), Some(_)) = (&self.memory, limits.memory_bytes) {
            // Memory alone may never have more than both together: first that one is opened.
            let with_swap = tree.join(group).join("memory.memsw.limit_in_bytes");
            if self.files.exists(&with_swap) {
                self.files.write(&with_swap, "-1")?;
            }
        }
        self.limit(group, limits)
    }

    fn tasks(&self, group: &Path) -> io::Result<Vec<OwnedFd>> {
        let tasks = |tree: &PathBuf| self.files.open_write(&tree.join(group).join("tasks"));
        self.limiting().iter().map(tasks).collect()
    }

    fn directory(&self, _group: &Path) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }

    fn counters(&self, group: &Path) -> io::Result<Counters> {
        let mut counters = Counters::default();
        if let Some(tree) = &self.memory {
            let directory = tree.join(group);
            let events = self.files.read(&directory.join("memory.oom_control"))?;
            // The line is missing before kernel 4.13.
            counters.oom_kills = keyed(&events, "oom_kill").unwrap_or(0);
            let peak = self.files.read(&directory.join("memory.max_usage_in_bytes"))?;
            counters.memory_peak_bytes = peak.trim().parse().ok();
        }
        if let Some(tree) = &self.pids {
            let events = self.files.read(&tree.join(group).join("pids.events"))?;
            counters.pids_refusals = keyed(&events, "max").unwrap_or(0);
        }
        Ok(counters)
    }

    fn hit_files(&self, group: &Path) -> io::Result<Vec<(Counted, OwnedFd)>> {
        let kinds = [
            (Counted::OomKills, &self.memory, "memory.oom_control"),
            (Counted::PidsRefusals, &self.pids, "pids.events"),
        ];
        let open = |(counted, tree, name): (Counted, &Option<PathBuf>, &str)| {
            let file = tree.as_ref().map(|tree| tree.join(group).join(name))?;
            Some(self.files.open_read(&file).map(|file| (counted, file)))
        };
        kinds.into_iter().filter_map(open).collect()
    }

    fn remove(&self, group: &Path) -> io::Result<()> {
        self.trees().iter().try_for_each(|tree| remove_directories(&self.files, &tree.join(group)))
    }

    fn create_leaf(&self, leaf: &Path, _root: u32) -> io::Result<OwnedFd> {
        let directory = self.freezer()?.join(leaf);
        self.files.create_directory(&directory)?;
        // No change of owner: the kernel looks at who opened `tasks`, and that is the agent.
        self.files
            .open_write(&directory.join("tasks"))
            .inspect_err(|_| undo(&self.files, &[directory]))
    }

    fn kill(&self, leaf: &Path) -> io::Result<()> {
        // Frozen processes can neither fork nor end, so one pass meets all of them, and no pid can
        // come to mean another process meanwhile. SIGKILL acts when they thaw.
        self.freeze_to_kill(leaf)?;
        let killed = self.processes(leaf).map(|found| {
            for pid in found {
                let _ = pidfd::open(pid).and_then(|process| pidfd::send_signal(&process, 9));
            }
        });
        self.thaw(leaf)?;
        killed?;
        // Whatever was not frozen in time may have forked: it is killed as it is found.
        for _ in 0..KILL_PASSES {
            let left = self.processes(leaf)?;
            let mut alive = false;
            for pid in left {
                let signalled = pidfd::open(pid)
                    .and_then(|process| pidfd::send_signal(&process, 9).map(|()| process));
                alive |= signalled.is_ok();
            }
            if !alive {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    fn processes(&self, leaf: &Path) -> io::Result<Vec<u32>> {
        Ok(pids(&self.files.read(&self.freezer()?.join(leaf).join("cgroup.procs"))?))
    }

    fn threads(&self, leaf: &Path) -> io::Result<Vec<u32>> {
        Ok(pids(&self.files.read(&self.freezer()?.join(leaf).join("tasks"))?))
    }

    fn is_populated(&self, leaf: &Path) -> io::Result<bool> {
        // Threads, not processes: one whose first thread is gone is in `tasks` only.
        Ok(!self.files.read(&self.freezer()?.join(leaf).join("tasks"))?.is_empty())
    }

    fn leaves(&self, group: &Path) -> io::Result<Vec<PathBuf>> {
        leaves(&self.files, self.freezer()?, group)
    }

    fn freeze(&self, leaf: &Path) -> io::Result<()> {
        self.files.write(&self.freezer()?.join(leaf).join("freezer.state"), "FROZEN")
    }

    fn thaw(&self, leaf: &Path) -> io::Result<()> {
        self.files.write(&self.freezer()?.join(leaf).join("freezer.state"), "THAWED")
    }

    fn is_frozen(&self, leaf: &Path) -> io::Result<bool> {
        let state = self.files.read(&self.freezer()?.join(leaf).join("freezer.state"))?;
        Ok(state.trim() == "FROZEN")
    }

    fn events(&self, _leaf: &Path) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}
