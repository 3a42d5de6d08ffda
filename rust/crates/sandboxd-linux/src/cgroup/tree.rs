//! The agent's groups as the agent uses them, whatever drivers are beneath.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use super::driver::{Controls, Counted, Counters, Driver, Hits, Limits, keyed};
use super::files::{Files, HostFiles};
use super::layout::Layout;
use super::meter::Meter;
use super::owner::Owner;
use super::remove::remove_tree;
use super::v1::V1;
use super::v2::{V2, step_back};
use crate::pidfd;
use crate::process::put_first;
use crate::protocol::Containment;

/// The agent's trees of groups. Cheap to clone. Not removed on drop: see [`Cgroups::remove`].
#[derive(Debug, Clone)]
pub struct Cgroups {
    drivers: Arc<[Box<dyn Driver>]>,
}

impl Cgroups {
    /// Makes the agent's tree beneath its own groups, in every hierarchy that lets it. Where none
    /// does, nothing can be limited and execs are contained by a subreaper.
    #[must_use]
    pub fn set_up(layout: &Layout, owner: &Owner) -> Self {
        Self::set_up_as(layout, &owner.group())
    }

    /// [`Cgroups::set_up`] with a tree of any other name, which [`Cgroups::sweep`] leaves alone.
    #[must_use]
    pub fn set_up_as(layout: &Layout, tree: &str) -> Self {
        let mut drivers: Vec<Box<dyn Driver>> = Vec::new();
        // v2 first, for its leaves.
        if let Some(driver) = V2::set_up(HostFiles, layout, tree) {
            drivers.push(Box::new(driver));
        }
        // Its leaves being the better ones, the freezer is not needed then: a group less to make.
        let mut layout = layout.clone();
        layout.v1.retain(|(controller, _)| controller != "freezer" || drivers.is_empty());
        if let Some(driver) = V1::set_up(HostFiles, &layout, tree) {
            drivers.push(Box::new(driver));
        }
        Self { drivers: drivers.into() }
    }

    /// Without any group, as on a machine that lets us make none.
    #[must_use]
    pub fn none() -> Self {
        Self { drivers: Arc::new([]) }
    }

    /// Which limits can be enforced.
    #[must_use]
    pub fn controls(&self) -> Controls {
        let each = self.drivers.iter().map(|driver| driver.controls());
        each.fold(Controls::default(), Controls::or)
    }

    /// How execs are kept together.
    #[must_use]
    pub fn containment(&self) -> Containment {
        let first = self.drivers.iter().find_map(|driver| driver.containment());
        first.unwrap_or(Containment::Subreaper)
    }

    /// Whether the CPU time of everything that ever was in a leaf can be read.
    #[must_use]
    pub fn counts_cpu_time(&self) -> bool {
        self.leaves().is_ok_and(|driver| driver.counts_cpu_time())
    }

    /// The directories of the agent's tree, for [`crate::launcher::LauncherConfig::cgroups`].
    #[must_use]
    pub fn trees(&self) -> Vec<PathBuf> {
        self.drivers.iter().flat_map(|driver| driver.trees()).collect()
    }

    /// Makes the group of a sandbox. The caller has checked `limits` against [`Self::controls`]; one
    /// that cannot be enforced is an error here too.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a limit without a controller, else what the kernel says. Nothing is left
    /// behind.
    pub fn create(&self, number: u32, limits: &Limits) -> io::Result<SandboxCgroup> {
        if self.controls().select(limits) != *limits {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let group = SandboxCgroup {
            cgroups: self.clone(),
            path: format!("sb-{number}").into(),
            leaves: AtomicU32::new(0),
            hit_files: OnceLock::new(),
        };
        for (made, driver) in self.drivers.iter().enumerate() {
            let limits = driver.controls().select(limits);
            if let Err(error) = driver.create(&group.path, &limits) {
                for driver in &self.drivers[..made] {
                    let _ = driver.remove(&group.path);
                }
                return Err(error);
            }
        }
        Ok(group)
    }

    /// Gives this process, the agent, a group of its own in the tree, so that it answers whatever the
    /// sandboxes do. What it starts later begins there too. [`Self::leave`] undoes it.
    pub fn shelter(&self) {
        self.drivers.iter().for_each(|driver| driver.shelter());
    }

    /// Moves this process out of the tree, where it may have a group of its own, so that others can
    /// remove it.
    pub fn leave(&self) {
        self.trees().iter().for_each(|tree| step_back(&HostFiles, tree));
    }

    /// Removes the agent's tree with everything in it, killing what still runs. Waits a bounded time
    /// for the dead to leave.
    ///
    /// # Errors
    ///
    /// If something could not be removed. The rest is.
    pub fn remove(&self) -> io::Result<()> {
        let results: Vec<_> = self.trees().iter().map(|tree| remove_tree(tree)).collect();
        results.into_iter().collect()
    }

    /// Removes the trees that agents left beneath these groups when they died with their launcher.
    /// Returns their owners. Trees of living agents are left alone.
    #[must_use]
    pub fn sweep(layout: &Layout) -> Vec<Owner> {
        let mut swept = Vec::new();
        let v1 = layout.v1.iter().map(|(_, directory)| directory);
        let own = v1.chain(&layout.v2).chain(&layout.v2_top);
        for tree in own.filter_map(|own| HostFiles.directories(own).ok()).flatten() {
            let name = tree.file_name().and_then(|name| name.to_str());
            let Some(owner) = name.and_then(Owner::from_group) else { continue };
            if !owner.is_alive() && remove_tree(&tree).is_ok() && !swept.contains(&owner) {
                swept.push(owner);
            }
        }
        swept
    }

    /// The driver whose leaves are used.
    fn leaves(&self) -> io::Result<&dyn Driver> {
        let mut drivers = self.drivers.iter();
        let found = drivers.find(|driver| driver.containment().is_some());
        found.map(Box::as_ref).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

/// Descriptors through which a first process enters a sandbox's groups, in the order that
/// [`crate::protocol::Launch`] wants them.
#[derive(Debug)]
pub struct Join {
    pub tasks: Vec<OwnedFd>,
    pub directory: Option<OwnedFd>,
}

/// The groups of one sandbox. Not removed on drop: see [`SandboxCgroup::remove`].
#[derive(Debug)]
pub struct SandboxCgroup {
    cgroups: Cgroups,
    path: PathBuf,
    /// Leaves made so far: names are never used twice.
    leaves: AtomicU32,
    hit_files: OnceLock<Vec<(Counted, OwnedFd)>>,
}

impl SandboxCgroup {
    /// Opens what init enters the groups through.
    ///
    /// # Errors
    ///
    /// When descriptors run out.
    pub fn join(&self) -> io::Result<Join> {
        let mut join = Join { tasks: Vec::new(), directory: None };
        for driver in &*self.cgroups.drivers {
            join.tasks.extend(driver.tasks(&self.path)?);
            join.directory = join.directory.or(driver.directory(&self.path)?);
        }
        Ok(join)
    }

    /// Makes a leaf for execs of this sandbox. `root` is the host id of the sandbox's root
    /// ([`crate::protocol::IdRange::first`]).
    ///
    /// # Errors
    ///
    /// `Unsupported` with [`Containment::Subreaper`].
    pub fn create_leaf(&self, root: u32) -> io::Result<Leaf> {
        let number = self.leaves.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("x{number}"));
        let entrance = self.cgroups.leaves()?.create_leaf(&path, root)?;
        let events = self.cgroups.leaves()?.events(&path)?;
        let cgroups = self.cgroups.clone();
        Ok(Leaf { cgroups, path, entrance, events, killed: false, meter: Meter::new() })
    }

    /// Lets the sandbox use as much processor time as it can get, or again as `limit` says.
    ///
    /// # Errors
    ///
    /// If the group is gone.
    pub fn set_cpu_limit(&self, limit: Option<u32>) -> io::Result<()> {
        let mut drivers = self.cgroups.drivers.iter().filter(|driver| driver.controls().cpu);
        drivers.try_for_each(|driver| driver.set_cpu_limit(&self.path, limit))
    }

    /// Changes limits. `None` leaves one as it is.
    ///
    /// # Errors
    ///
    /// If the group is gone, or uses more than the limit and cannot do with less.
    pub fn limit(&self, limits: &Limits) -> io::Result<()> {
        self.cgroups.drivers.iter().try_for_each(|driver| {
            let own = driver.controls().select(limits);
            driver.relimit(&self.path, &own)
        })
    }

    /// What the kernel counted so far.
    ///
    /// # Errors
    ///
    /// If the group is gone.
    pub fn counters(&self) -> io::Result<Counters> {
        let mut total = Counters::default();
        for driver in &*self.cgroups.drivers {
            total = total.and(driver.counters(&self.path)?);
        }
        Ok(total)
    }

    /// How often limits were met so far. To be asked after every exec: the files stay open.
    ///
    /// # Errors
    ///
    /// If the group is gone.
    pub fn hits(&self) -> io::Result<Hits> {
        let files = if let Some(files) = self.hit_files.get() {
            files
        } else {
            let opened: io::Result<Vec<_>> =
                self.cgroups.drivers.iter().map(|driver| driver.hit_files(&self.path)).collect();
            let opened = opened?;
            self.hit_files.get_or_init(|| opened.into_iter().flatten().collect())
        };
        let mut hits = Hits::default();
        for (counted, file) in files {
            let count = read_key(file, counted.key())?.unwrap_or(0);
            match counted {
                Counted::OomKills => hits.oom_kills += count,
                Counted::PidsRefusals => hits.pids_refusals += count,
            }
        }
        Ok(hits)
    }

    /// Begins to stop every process in any leaf. Init is in none. No exec may be started meanwhile: init
    /// would wait for a child that is stopped before it becomes its program.
    ///
    /// # Errors
    ///
    /// `Unsupported` with [`Containment::Subreaper`]; else what the kernel says. Some are frozen then.
    pub fn freeze(&self) -> io::Result<()> {
        let driver = self.cgroups.leaves()?;
        let leaves = driver.leaves(&self.path)?;
        leaves.iter().try_for_each(|leaf| unless_gone(driver.freeze(leaf)).map(drop))
    }

    /// Whether every process in any leaf has stopped, of a sandbox that is being frozen.
    ///
    /// # Errors
    ///
    /// As [`Self::freeze`].
    pub fn is_frozen(&self) -> io::Result<bool> {
        let driver = self.cgroups.leaves()?;
        for leaf in driver.leaves(&self.path)? {
            if unless_gone(driver.is_frozen(&leaf))? == Some(false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets the processes go on.
    ///
    /// # Errors
    ///
    /// What the kernel says of the first leaf that it cannot thaw. The others are thawed.
    pub fn thaw(&self) -> io::Result<()> {
        let driver = self.cgroups.leaves()?;
        let leaves = unless_gone(driver.leaves(&self.path))?.unwrap_or_default();
        let thawed: Vec<_> = leaves.iter().map(|leaf| unless_gone(driver.thaw(leaf))).collect();
        thawed.into_iter().try_for_each(|thawed| thawed.map(drop))
    }

    /// Removes the groups, leaves included. To be called when init was reaped; can be repeated.
    ///
    /// # Errors
    ///
    /// `ResourceBusy` while dead processes have not left yet: try again some milliseconds later.
    pub fn remove(&self) -> io::Result<()> {
        self.cgroups.drivers.iter().try_for_each(|driver| driver.remove(&self.path))
    }
}

/// Threads that one call of [`Leaf::hasten`] looks after.
const MOST_HASTENED: usize = 256;

/// A group that holds exactly the processes of one exec at a time.
///
/// Reused while clean: not killed, and empty. See [`Leaf::is_reusable`].
#[derive(Debug)]
pub struct Leaf {
    cgroups: Cgroups,
    path: PathBuf,
    entrance: OwnedFd,
    /// Where the kernel tells whether anybody is in it (v2). Of v1's list of members it would show
    /// an old copy when read again.
    events: Option<OwnedFd>,
    killed: bool,
    meter: Meter,
}

impl AsFd for Leaf {
    /// What goes with [`crate::protocol::ExecRequest`] as its last descriptor.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.entrance.as_fd()
    }
}

impl Leaf {
    /// Kills everything in the leaf, also what left its session or double-forked. It is not
    /// reusable afterwards. The main process is reaped by init as ever.
    ///
    /// # Errors
    ///
    /// If the leaf is gone.
    pub fn kill(&mut self) -> io::Result<()> {
        self.killed = true;
        self.driver()?.kill(&self.path)
    }

    /// Sends a signal to every process in the leaf, and says to how many.
    ///
    /// # Errors
    ///
    /// If the leaf is gone. A process that ended meanwhile is no error.
    pub fn signal(&self, signal: i32) -> io::Result<usize> {
        let driver = self.driver()?;
        let mut reached = 0;
        for pid in driver.processes(&self.path)? {
            let Ok(process) = pidfd::open(pid) else { continue };
            // The pid may have come to mean a stranger between the list and the open; the pidfd
            // cannot: if its pid is still listed now, it is that one.
            let member = driver.processes(&self.path)?.contains(&pid);
            reached += usize::from(member && pidfd::send_signal(&process, signal).is_ok());
        }
        Ok(reached)
    }

    /// Of a killed leaf: lets what is left end before everybody else gets a processor again: to end takes time on
    /// one, and others beside it may be many. Best effort: needs `CAP_SYS_NICE`, and the dying of a leaf
    /// that is full of them are not in each other's way.
    ///
    /// Threads are named by their numbers, which can be used again: not within the moment between the
    /// list and this, because the kernel hands out all others first.
    pub fn hasten(&self) {
        let Ok(threads) = self.driver().and_then(|driver| driver.threads(&self.path)) else {
            return;
        };
        for thread in threads.into_iter().filter(|thread| *thread != 0).take(MOST_HASTENED) {
            let _ = put_first(thread);
        }
    }

    /// Whether any process is in the leaf, dying ones included.
    ///
    /// # Errors
    ///
    /// If the leaf is gone.
    pub fn is_populated(&self) -> io::Result<bool> {
        match &self.events {
            Some(events) => Ok(read_key(events, "populated")? != Some(0)),
            None => self.driver()?.is_populated(&self.path),
        }
    }

    /// Begins to measure the next exec in it. Unless it has to be `exact`, what the execs before used
    /// may be known to some microseconds each only.
    pub fn begin(&mut self, exact: bool) {
        if self.meter.is_vague() || (exact && !self.meter.is_exact()) {
            self.meter.set(self.cpu_nanos());
        }
    }

    /// CPU time of everything in it since [`Self::begin`], as the kernel counts; `None` where it does
    /// not.
    #[must_use]
    pub fn used_nanos(&self) -> Option<u64> {
        self.meter.since(self.cpu_nanos()?)
    }

    /// Notes the end of an exec whose use was not asked for, and is known: `nanos`.
    pub fn add_used(&mut self, nanos: u64) {
        self.meter.add(nanos);
    }

    /// Notes that the next exec begins with what the kernel counts then.
    pub fn forget_used(&mut self) {
        self.meter.set(None);
    }

    fn cpu_nanos(&self) -> Option<u64> {
        self.driver().ok()?.cpu_nanos(&self.path).ok()?
    }

    /// Whether another exec may be started in it: a killed leaf kills all that enters it later, and
    /// a populated one has background children of the exec before.
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        !self.killed && self.is_populated().is_ok_and(|populated| !populated)
    }

    /// A descriptor that polls `POLLPRI` when the leaf empties, where the kernel tells (v2). Read
    /// it from the start to arm it again.
    ///
    /// # Errors
    ///
    /// If the leaf is gone, or descriptors run out.
    pub fn events(&self) -> io::Result<Option<OwnedFd>> {
        self.driver()?.events(&self.path)
    }

    /// Removes the leaf; can be repeated. [`SandboxCgroup::remove`] removes leaves as well.
    ///
    /// # Errors
    ///
    /// `ResourceBusy` while processes are in it.
    pub fn remove(&self) -> io::Result<()> {
        self.driver()?.remove(&self.path)
    }

    fn driver(&self) -> io::Result<&dyn Driver> {
        self.cgroups.leaves()
    }
}

/// `None` for a group that is gone, and whatever was in it: a leaf that is not needed any more is
/// removed at any time.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        // Opening finds nothing, or what was opened is gone at the read or write.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads one value of a short file of `key value` lines that stays open.
fn read_key(file: &OwnedFd, key: &str) -> io::Result<Option<u64>> {
    let mut buffer = [0; 512];
    let length = rustix::io::pread(file, &mut buffer, 0)?;
    Ok(std::str::from_utf8(&buffer[..length]).ok().and_then(|text| keyed(text, key)))
}
