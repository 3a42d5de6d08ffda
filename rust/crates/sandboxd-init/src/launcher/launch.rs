//! One launch: from an order to an init that runs.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::pipe::{PipeFlags, pipe_with};
use sandboxd_linux::clone::{self, Options};
use sandboxd_linux::process::join_namespace;
use sandboxd_linux::protocol::{Failure, IdRange, Launch, Step};
use sandboxd_linux::seccomp::Filter;
use sandboxd_linux::seqpacket::Descriptors;
use sandboxd_linux::title::Title;
use sandboxd_linux::{mount, process};

use super::crew::Crew;
use super::namespaces::{Birthplace, Pair, map_and_open};
use super::shelf::Shelf;
use crate::failure::{At as _, failure};
use crate::serve::Scores;
use crate::setup::{self, Gate, Layer, Overlay, Plan};

/// How far init is above programs, in steps of `nice`: as many times the weight of one of them.
const ABOVE_PROGRAMS: i32 = 10;

/// What every launch needs and no order changes.
#[derive(Debug)]
pub(super) struct Workshop {
    pub(super) crew: Crew,
    pub(super) shelf: Shelf,
    pub(super) kit: Kit,
}

/// What every init gets.
#[derive(Debug)]
pub(super) struct Kit {
    pub(super) filter: Filter,
    pub(super) title: Title,
    pub(super) scores: Scores,
}

/// The descriptors of an order.
#[derive(Debug)]
struct Inherited {
    control: OwnedFd,
    tasks: Vec<OwnedFd>,
    directory: Option<OwnedFd>,
    bases: Vec<OwnedFd>,
}

impl Inherited {
    fn take(launch: &Launch, descriptors: &mut Descriptors) -> Option<Self> {
        let control = descriptors.take()?;
        let tasks: Option<Vec<_>> = (0..launch.cgroup_tasks).map(|_| descriptors.take()).collect();
        let directory = if launch.cgroup_directory { Some(descriptors.take()?) } else { None };
        let bases: Option<Vec<_>> = (0..launch.bases).map(|_| descriptors.take()).collect();
        Some(Self { control, tasks: tasks?, directory, bases: bases? })
    }
}

impl Workshop {
    /// Whether an init can be born into a user namespace of its own: each layer is known to be one
    /// whose owners can be mapped, so that its copy can be taken before that namespace is there.
    ///
    /// Those of a grader are not: they are mapped with a namespace that is there.
    pub(super) fn knows_layers(&self, launch: &Launch) -> bool {
        let mut layers = launch.root.iter().flat_map(|mount| &mount.layers);
        launch.bases == 0 && layers.all(|path| self.shelf.source(path).is_some())
    }

    /// Makes a sandbox and returns the pid of its init, which is a child of the launcher. Init goes
    /// on by itself and tells the agent when the sandbox stands.
    pub(super) fn launch(
        &mut self,
        launch: &Launch,
        descriptors: &mut Descriptors,
        birthplace: &Birthplace,
    ) -> Result<u32, Failure> {
        let incomplete = io::Error::from_raw_os_error(libc::EBADMSG);
        let inherited = Inherited::take(launch, descriptors)
            .ok_or_else(|| failure(Step::Descriptor, &incomplete, "launch"))?;
        match birthplace {
            Birthplace::Pair(pair) => self.launch_in(launch, &inherited, pair),
            Birthplace::Own(ids) => self.launch_alone(launch, &inherited, *ids),
        }
    }

    /// Makes a sandbox in the namespaces of `pair`.
    fn launch_in(
        &mut self,
        launch: &Launch,
        inherited: &Inherited,
        pair: &Pair,
    ) -> Result<u32, Failure> {
        let root = overlays(launch, |path| {
            if path.is_absolute() {
                layer(path, pair, &mut self.shelf)
            } else {
                base(path, &inherited.bases, pair)
            }
        })?;
        let plan = self.kit.plan(launch, inherited, pair.ids, root, None)?;
        // Namespaces and groups are entered by a child that shares our memory, so that we stay where
        // we are without paying for a copy. What it finds is written down here.
        let outcome = Cell::new(Err((Step::Other, libc::EIO)));
        let mut enter = || {
            outcome.set(enter(inherited, pair).and_then(|directory| {
                let options = Options {
                    // Init leaves the other ones behind by itself: that takes longer, and the
                    // next sandbox does not have to wait for it.
                    namespaces: libc::CLONE_NEWPID,
                    parent: true,
                    cgroup: directory.map(|directory| directory.as_fd()),
                };
                // SAFETY: neither the launcher nor this child has a second thread.
                match unsafe { clone::fork(options) } {
                    Ok(Some(pid)) => Ok(pid),
                    Ok(None) => setup::become_init(&plan),
                    Err(error) => Err(step(Step::Namespaces, &error)),
                }
            }));
            0
        };
        // SAFETY: there is one thread; the child only makes system calls and sets a cell. Init, which
        // is cloned from it with a copy of all memory, is free to do more.
        unsafe { self.crew.run(Options::default(), &mut enter) }.at(Step::Namespaces)?;
        outcome
            .get()
            .map_err(|(step, errno)| failure(step, &io::Error::from_raw_os_error(errno), ""))
    }

    /// Makes a sandbox in namespaces of its own. Without a helper, whose start and end cost more than
    /// init's wait until its ids are mapped.
    fn launch_alone(
        &self,
        launch: &Launch,
        inherited: &Inherited,
        ids: IdRange,
    ) -> Result<u32, Failure> {
        let root = overlays(launch, |path| self.unmapped(path))?;
        let (wait, go) = pipe_with(PipeFlags::CLOEXEC).at(Step::Other)?;
        let gate = Gate { tasks: &inherited.tasks, wait: wait.as_fd() };
        let plan = self.kit.plan(launch, inherited, ids, root, Some(gate))?;
        let options = Options {
            namespaces: libc::CLONE_NEWUSER | libc::CLONE_NEWPID,
            parent: false,
            cgroup: inherited.directory.as_ref().map(AsFd::as_fd),
        };
        // SAFETY: the launcher has a single thread.
        let Some(pid) = unsafe { clone::fork(options) }.at(Step::Namespaces)? else {
            // Init must see the end of the pipe when the launcher dies.
            drop(go);
            setup::become_init(&plan);
        };
        // It has no right to that itself any more.
        let _ = process::raise_priority(Some(pid), ABOVE_PROGRAMS);
        let ready = map_and_open(pid, ids).and_then(|user| {
            let trees = plan.root.iter().flat_map(|overlay| &overlay.layers);
            trees
                .filter_map(|layer| layer.tree.as_ref())
                .try_for_each(|tree| mount::map_ids(tree, &user))
                .at(Step::IdMap)?;
            rustix::io::write(&go, &[0]).at(Step::Other)
        });
        match ready {
            Ok(_) => Ok(pid),
            Err(failure) => {
                end(pid);
                Err(failure)
            }
        }
    }

    fn unmapped(&self, path: &Path) -> Result<Layer, Failure> {
        let source = self.shelf.source(path).map(CStr::to_owned);
        let source = source.map_or_else(|| c_path(path), Ok)?;
        let tree = mount::copy_tree(&source).at_path(Step::Mount, &source)?;
        Ok(Layer { path: source, tree: Some(tree) })
    }
}

impl Kit {
    fn plan<'a>(
        &'a self,
        launch: &'a Launch,
        inherited: &'a Inherited,
        ids: IdRange,
        root: Vec<Overlay>,
        gate: Option<Gate<'a>>,
    ) -> Result<Plan<'a>, Failure> {
        Ok(Plan {
            ids,
            hardened: launch.hardened,
            root,
            nosuid: launch.bases > 0,
            mount_point: c_path(&launch.mount_point)?,
            disk_bytes: launch.disk_bytes,
            cpus: &launch.cpus,
            processes: launch.processes,
            host_name: launch.hostname.as_bytes(),
            control: inherited.control.as_fd(),
            filter: &self.filter,
            makes_network: gate.is_some(),
            gate,
            title: self.title,
            scores: self.scores,
        })
    }
}

fn step(step: Step, error: &io::Error) -> (Step, i32) {
    (step, error.raw_os_error().unwrap_or(libc::EIO))
}

/// In the helper: enters the groups and the pair. Allocates nothing.
fn enter<'a>(inherited: &'a Inherited, pair: &Pair) -> Result<Option<&'a OwnedFd>, (Step, i32)> {
    // Init inherits it: it does little, and whatever fills the sandbox must not keep it from starting
    // and ending programs. While we have the right to; without it, init has to take its turn.
    let _ = process::raise_priority(None, ABOVE_PROGRAMS);
    setup::join_groups(&inherited.tasks).map_err(|errno| step(Step::Cgroup, &errno.into()))?;
    // In this order: joining the network namespace needs rights in the user namespace that owns it.
    for (namespace, kind) in
        [(&pair.user, libc::CLONE_NEWUSER), (&pair.network, libc::CLONE_NEWNET)]
    {
        join_namespace(namespace.as_fd(), kind).map_err(|error| step(Step::Namespaces, &error))?;
    }
    Ok(inherited.directory.as_ref())
}

fn overlays(
    launch: &Launch,
    mut layer: impl FnMut(&Path) -> Result<Layer, Failure>,
) -> Result<Vec<Overlay>, Failure> {
    let mut overlays = Vec::with_capacity(launch.root.len());
    for mount in &launch.root {
        let layers: Result<Vec<_>, Failure> = mount.layers.iter().map(|path| layer(path)).collect();
        overlays.push(Overlay { target: c_path(&mount.target)?, layers: layers? });
    }
    Ok(overlays)
}

/// A layer as init will mount it: with the owners of its files shown as the sandbox knows them,
/// where that can be had.
fn layer(path: &Path, pair: &Pair, shelf: &mut Shelf) -> Result<Layer, Failure> {
    let path = c_path(path)?;
    // An ordinary user owns no mounts, and then its init makes the copy, in namespaces that it does
    // own. It also says what is wrong with a path that does not exist.
    let Ok(tree) = mount::copy_tree(&path) else { return Ok(Layer { path, tree: None }) };
    if mount::map_ids(&tree, &pair.user).is_ok() {
        shelf.note(&path, &path);
        return Ok(Layer { path, tree: Some(tree) });
    }
    let copied = shelf.tree(&path).and_then(|copy| {
        mount::map_ids(&copy, &pair.user)?;
        Ok(copy)
    });
    if copied.is_ok()
        && let Some(copy) = shelf.copy(&path)
    {
        shelf.note(&path, &copy);
    }
    // Without a copy either, the files are shown as nobody's.
    Ok(Layer { path, tree: Some(copied.unwrap_or(tree)) })
}

/// A layer on a mount that came with the order. Its owners must be shown as they are: it is one of a
/// sandbox's own layers, or files that were written for one.
fn base(path: &Path, bases: &[OwnedFd], pair: &Pair) -> Result<Layer, Failure> {
    let unknown = || failure(Step::Mount, &io::ErrorKind::NotFound.into(), path.to_string_lossy());
    let mut parts = path.iter();
    let number: Option<usize> = parts.next().and_then(|part| part.to_str()?.parse().ok());
    let base = number.and_then(|number| bases.get(number)).ok_or_else(unknown)?;
    let beneath = c_path(parts.as_path())?;
    let path = c_path(path)?;
    let tree = mount::copy_beneath(base, &beneath).at_path(Step::Mount, &path)?;
    mount::map_ids(&tree, &pair.user).at_path(Step::IdMap, &path)?;
    Ok(Layer { path, tree: Some(tree) })
}

fn c_path(path: &Path) -> Result<CString, Failure> {
    let invalid = io::Error::from_raw_os_error(libc::EINVAL);
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| failure(Step::Mount, &invalid, path.to_string_lossy()))
}

/// Ends an init at once; the kernel ends everything in its pid namespace with it.
pub(super) fn end(pid: u32) {
    // Its pid is its own until the launcher collects it.
    let _ = process::kill(pid, libc::SIGKILL);
}
