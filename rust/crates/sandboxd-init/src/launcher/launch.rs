//! One launch: from an order to an init that runs.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sandboxd_linux::clone::{self, Options};
use sandboxd_linux::process::join_namespace;
use sandboxd_linux::protocol::{Failure, Launch, Step};
use sandboxd_linux::seccomp::Filter;
use sandboxd_linux::seqpacket::Descriptors;
use sandboxd_linux::title::Title;
use sandboxd_linux::{mount, process};

use super::crew::Crew;
use super::namespaces::Pair;
use super::shelf::Shelf;
use crate::failure::{At as _, failure};
use crate::serve::Scores;
use crate::setup::{self, Layer, Overlay, Plan};

/// How far init is above programs, in steps of `nice`: as many times the weight of one of them.
const ABOVE_PROGRAMS: i32 = 10;

/// What every launch needs and no order changes.
#[derive(Debug)]
pub(super) struct Workshop {
    pub(super) crew: Crew,
    pub(super) filter: Filter,
    pub(super) title: Title,
    pub(super) scores: Scores,
    pub(super) shelf: Shelf,
}

/// The descriptors of an order.
#[derive(Debug)]
struct Inherited {
    control: OwnedFd,
    tasks: Vec<OwnedFd>,
    directory: Option<OwnedFd>,
}

impl Inherited {
    fn take(launch: &Launch, descriptors: &mut Descriptors) -> Option<Self> {
        let control = descriptors.take()?;
        let tasks: Option<Vec<_>> = (0..launch.cgroup_tasks).map(|_| descriptors.take()).collect();
        let directory = if launch.cgroup_directory { Some(descriptors.take()?) } else { None };
        Some(Self { control, tasks: tasks?, directory })
    }
}

impl Workshop {
    /// Makes a sandbox in the namespaces of `pair` and returns the pid of its init, which is a child
    /// of the launcher. Init goes on by itself and tells the agent when the sandbox stands.
    pub(super) fn launch(
        &mut self,
        launch: &Launch,
        descriptors: &mut Descriptors,
        pair: &Pair,
    ) -> Result<u32, Failure> {
        let incomplete = io::Error::from_raw_os_error(libc::EBADMSG);
        let inherited = Inherited::take(launch, descriptors)
            .ok_or_else(|| failure(Step::Descriptor, &incomplete, "launch"))?;
        let plan = Plan {
            ids: pair.ids,
            hardened: launch.hardened,
            root: overlays(launch, pair, &mut self.shelf)?,
            mount_point: c_path(&launch.mount_point)?,
            disk_bytes: launch.disk_bytes,
            cpus: &launch.cpus,
            processes: launch.processes,
            host_name: launch.hostname.as_bytes(),
            control: inherited.control.as_fd(),
            filter: &self.filter,
            makes_network: pair.network.is_none(),
            title: self.title,
            scores: self.scores,
        };

        // Namespaces and groups are entered by a child that shares our memory, so that we stay where
        // we are without paying for a copy. What it finds is written down here.
        let outcome = Cell::new(Err((Step::Other, libc::EIO)));
        let mut enter = || {
            outcome.set(enter(&inherited, pair).and_then(|directory| {
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
}

fn step(step: Step, error: &io::Error) -> (Step, i32) {
    (step, error.raw_os_error().unwrap_or(libc::EIO))
}

/// In the helper: enters the groups and the pair. Allocates nothing.
fn enter<'a>(inherited: &'a Inherited, pair: &Pair) -> Result<Option<&'a OwnedFd>, (Step, i32)> {
    // Init inherits it: it does little, and whatever fills the sandbox must not keep it from starting
    // and ending programs. While we have the right to; without it, init has to take its turn.
    let _ = process::raise_priority(ABOVE_PROGRAMS);
    for tasks in &inherited.tasks {
        rustix::io::write(tasks, b"0").map_err(|errno| step(Step::Cgroup, &errno.into()))?;
    }
    // In this order: joining the network namespace needs rights in the user namespace that owns it.
    let namespaces =
        [(Some(&pair.user), libc::CLONE_NEWUSER), (pair.network.as_ref(), libc::CLONE_NEWNET)];
    for (namespace, kind) in namespaces {
        if let Some(namespace) = namespace {
            join_namespace(namespace.as_fd(), kind)
                .map_err(|error| step(Step::Namespaces, &error))?;
        }
    }
    Ok(inherited.directory.as_ref())
}

fn overlays(launch: &Launch, pair: &Pair, shelf: &mut Shelf) -> Result<Vec<Overlay>, Failure> {
    let mut overlays = Vec::with_capacity(launch.root.len());
    for mount in &launch.root {
        let layers: Result<Vec<_>, Failure> =
            mount.layers.iter().map(|path| layer(path, pair, shelf)).collect();
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
        return Ok(Layer { path, tree: Some(tree) });
    }
    let copied = shelf.tree(&path).and_then(|copy| {
        mount::map_ids(&copy, &pair.user)?;
        Ok(copy)
    });
    // Without a copy either, the files are shown as nobody's.
    Ok(Layer { path, tree: Some(copied.unwrap_or(tree)) })
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
