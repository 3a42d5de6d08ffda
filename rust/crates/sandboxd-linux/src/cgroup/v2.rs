//! Version 2: one hierarchy, entered at birth (`CLONE_INTO_CGROUP`), killed by one write.
//!
//! Invariant: a leaf that was killed is never entered again. Since 2025 kernels compare the
//! leaf's count of kills with the count of the *parent's* group when a process is cloned into it, so
//! that everything cloned into a killed leaf dies at once by SIGKILL. The same goes for leaves
//! that exist below a killed group.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::driver::{
    CPU_PERIOD_MICROS, Controls, Counted, Counters, Driver, Limits, cpu_quota_micros, keyed, pids,
};
use super::files::Files;
use super::layout::Layout;
use super::remove::{leaves, remove_directories, undo};
use crate::protocol::Containment;

/// The agent's tree in the v2 hierarchy.
#[derive(Debug)]
pub(super) struct V2<F> {
    files: F,
    tree: PathBuf,
    controls: Controls,
}

impl<F: Files + Clone> V2<F> {
    /// Makes the agent's tree where it gets controllers, or else without; `None` if no group can be
    /// made.
    ///
    /// A group hands controllers down only while no process is in it itself, the top one apart. So
    /// the agent steps aside into a group of its own if that helps. Where other programs are beside
    /// it, as in the scope of a login session, the tree goes to the top, if we may write there.
    pub(super) fn set_up(files: F, layout: &Layout, tree: &str) -> Option<Self> {
        let own = layout.v2.as_deref()?;
        let in_own = Self::create_in(files.clone(), own, tree);
        if in_own.as_ref().is_some_and(Self::limits_something) {
            return in_own;
        }
        let top = layout.v2_top.as_deref().filter(|top| *top != own);
        let in_top = top.and_then(|top| Self::create_in(files, top, tree));
        let (chosen, other) = match in_top {
            Some(in_top) if in_own.is_none() || in_top.limits_something() => (Some(in_top), in_own),
            in_top => (in_own, in_top),
        };
        if let Some(other) = other {
            undo(&other.files, &[other.tree]);
        }
        chosen
    }

    fn create_in(files: F, group: &Path, tree: &str) -> Option<Self> {
        let directory = group.join(tree);
        files.create_directory(&directory).ok()?;
        if delegate(&files, group).is_err() {
            step_aside(&files, &directory);
        }
        let _ = delegate(&files, &directory);
        let granted = files.read(&directory.join(SUBTREE_CONTROL)).unwrap_or_default();
        let has = |name: &str| granted.split_ascii_whitespace().any(|granted| granted == name);
        let controls = Controls { memory: has("memory"), pids: has("pids"), cpu: has("cpu") };
        Some(Self { files, tree: directory, controls })
    }

    fn limits_something(&self) -> bool {
        self.controls != Controls::default()
    }
}

impl<F: Files> V2<F> {
    fn limit(&self, group: &Path, limits: &Limits) -> io::Result<()> {
        let directory = self.tree.join(group);
        if let Some(bytes) = limits.memory_bytes {
            self.files.write(&directory.join("memory.max"), &bytes.to_string())?;
            let swap = directory.join("memory.swap.max");
            if self.files.exists(&swap) {
                self.files.write(&swap, "0")?;
            }
        }
        if let Some(count) = limits.pids {
            self.files.write(&directory.join("pids.max"), &count.to_string())?;
        }
        if let Some(millis) = limits.cpu_millis {
            self.set_share(group, Some(millis))?;
        }
        Ok(())
    }

    fn set_share(&self, group: &Path, millis: Option<u32>) -> io::Result<()> {
        let quota = millis.map_or("max".to_owned(), |millis| cpu_quota_micros(millis).to_string());
        let share = format!("{quota} {CPU_PERIOD_MICROS}");
        self.files.write(&self.tree.join(group).join("cpu.max"), &share)
    }
}

const SUBTREE_CONTROL: &str = "cgroup.subtree_control";
const PROCESSES: &str = "cgroup.procs";

/// Where the kernel counts CPU time, and the line that has all of it.
const CPU_TIME: &str = "cpu.stat";
const CPU_MICROS: &str = "usage_usec";

/// Controllers that limits are made of.
const USED: [&str; 3] = ["memory", "pids", "cpu"];

/// Hands every useful controller that `group` has to the groups beneath it.
fn delegate(files: &impl Files, group: &Path) -> io::Result<()> {
    let available = files.read(&group.join("cgroup.controllers"))?;
    for controller in available.split_ascii_whitespace().filter(|name| USED.contains(name)) {
        files.write(&group.join(SUBTREE_CONTROL), &format!("+{controller}"))?;
    }
    Ok(())
}

/// Moves this process out of the group above `tree`, into one beneath it, so that controllers can
/// come down. Moves it back if they do not even then.
fn step_aside(files: &impl Files, tree: &Path) {
    let (Some(above), aside) = (tree.parent(), tree.join(ASIDE)) else { return };
    let moved = files.create_directory(&aside).and_then(|()| {
        files.write(&aside.join(PROCESSES), "0")?;
        delegate(files, above)
    });
    if moved.is_err() {
        step_back(files, tree);
    }
}

/// Name of the group that the agent steps aside into.
pub(super) const ASIDE: &str = "agent";

/// Moves this process back out of [`ASIDE`], should it have been moved, so that `tree` can be removed.
/// Best effort.
pub(super) fn step_back(files: &impl Files, tree: &Path) {
    let (Some(above), aside) = (tree.parent(), tree.join(ASIDE)) else { return };
    let inside = files.read(&aside.join(PROCESSES)).unwrap_or_default();
    if !pids(&inside).contains(&std::process::id()) {
        return;
    }
    // A group that hands controllers down takes no process.
    for group in [tree, above] {
        for controller in USED {
            let _ = files.write(&group.join(SUBTREE_CONTROL), &format!("-{controller}"));
        }
    }
    if files.write(&above.join(PROCESSES), "0").is_ok() {
        let _ = files.remove_directory(&aside);
    }
}

impl<F: Files> Driver for V2<F> {
    fn controls(&self) -> Controls {
        self.controls
    }

    fn containment(&self) -> Option<Containment> {
        Some(Containment::CgroupDirectory)
    }

    fn trees(&self) -> Vec<PathBuf> {
        vec![self.tree.clone()]
    }

    fn create(&self, group: &Path, limits: &Limits) -> io::Result<()> {
        let directory = self.tree.join(group);
        self.files.create_directory(&directory)?;
        self.limit(group, limits).inspect_err(|_| undo(&self.files, &[directory]))
    }

    fn set_cpu_limit(&self, group: &Path, millis: Option<u32>) -> io::Result<()> {
        self.set_share(group, millis)
    }

    fn counts_cpu_time(&self) -> bool {
        // Without the controller too, since kernel 4.15.
        let counted = self.files.read(&self.tree.join(CPU_TIME));
        counted.is_ok_and(|text| keyed(&text, CPU_MICROS).is_some())
    }

    fn cpu_nanos(&self, leaf: &Path) -> io::Result<Option<u64>> {
        let text = self.files.read(&self.tree.join(leaf).join(CPU_TIME))?;
        Ok(keyed(&text, CPU_MICROS).map(|micros| micros.saturating_mul(1_000)))
    }

    fn relimit(&self, group: &Path, limits: &Limits) -> io::Result<()> {
        self.limit(group, limits)
    }

    fn tasks(&self, _group: &Path) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    fn directory(&self, group: &Path) -> io::Result<Option<OwnedFd>> {
        self.files.open_read(&self.tree.join(group)).map(Some)
    }

    fn counters(&self, group: &Path) -> io::Result<Counters> {
        let directory = self.tree.join(group);
        let mut counters = Counters::default();
        if self.controls.memory {
            let events = self.files.read(&directory.join("memory.events"))?;
            counters.oom_kills = keyed(&events, "oom_kill").unwrap_or(0);
            // Missing before kernel 5.19.
            let peak = self.files.read(&directory.join("memory.peak")).ok();
            counters.memory_peak_bytes = peak.and_then(|peak| peak.trim().parse().ok());
        }
        if self.controls.pids {
            let events = self.files.read(&directory.join("pids.events"))?;
            counters.pids_refusals = keyed(&events, "max").unwrap_or(0);
        }
        Ok(counters)
    }

    fn hit_files(&self, group: &Path) -> io::Result<Vec<(Counted, OwnedFd)>> {
        let kinds = [
            (Counted::OomKills, self.controls.memory, "memory.events"),
            (Counted::PidsRefusals, self.controls.pids, "pids.events"),
        ];
        let directory = self.tree.join(group);
        let open = |(counted, _, name)| {
            self.files.open_read(&directory.join(name)).map(|file| (counted, file))
        };
        kinds.into_iter().filter(|(_, controlled, _)| *controlled).map(open).collect()
    }

    fn remove(&self, group: &Path) -> io::Result<()> {
        remove_directories(&self.files, &self.tree.join(group))
    }

    fn create_leaf(&self, leaf: &Path, root: u32) -> io::Result<OwnedFd> {
        let directory = self.tree.join(leaf);
        self.files.create_directory(&directory)?;
        let open = || {
            // Init clones into the leaf with its own credentials, and the kernel wants to see that
            // it may write to the leaf's list of processes and to that of the common ancestor.
            self.files.give_to(&directory.join("cgroup.procs"), root)?;
            if let Some(group) = directory.parent() {
                self.files.give_to(&group.join("cgroup.procs"), root)?;
            }
            self.files.open_read(&directory)
        };
        open().inspect_err(|_| undo(&self.files, std::slice::from_ref(&directory)))
    }

    fn kill(&self, leaf: &Path) -> io::Result<()> {
        self.files.write(&self.tree.join(leaf).join("cgroup.kill"), "1")
    }

    fn processes(&self, leaf: &Path) -> io::Result<Vec<u32>> {
        Ok(pids(&self.files.read(&self.tree.join(leaf).join("cgroup.procs"))?))
    }

    fn threads(&self, leaf: &Path) -> io::Result<Vec<u32>> {
        Ok(pids(&self.files.read(&self.tree.join(leaf).join("cgroup.threads"))?))
    }

    fn is_populated(&self, leaf: &Path) -> io::Result<bool> {
        let events = self.files.read(&self.tree.join(leaf).join("cgroup.events"))?;
        Ok(keyed(&events, "populated") != Some(0))
    }

    fn leaves(&self, group: &Path) -> io::Result<Vec<PathBuf>> {
        leaves(&self.files, &self.tree, group)
    }

    fn freeze(&self, leaf: &Path) -> io::Result<()> {
        self.files.write(&self.tree.join(leaf).join("cgroup.freeze"), "1")
    }

    fn thaw(&self, leaf: &Path) -> io::Result<()> {
        self.files.write(&self.tree.join(leaf).join("cgroup.freeze"), "0")
    }

    fn is_frozen(&self, leaf: &Path) -> io::Result<bool> {
        let events = self.files.read(&self.tree.join(leaf).join("cgroup.events"))?;
        Ok(keyed(&events, "frozen") == Some(1))
    }

    fn events(&self, leaf: &Path) -> io::Result<Option<OwnedFd>> {
        self.files.open_read(&self.tree.join(leaf).join("cgroup.events")).map(Some)
    }
}
