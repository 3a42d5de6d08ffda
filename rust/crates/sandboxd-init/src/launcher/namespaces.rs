//! Pairs of a user namespace, its ids mapped, and a network namespace with its loopback up.
//!
//! These two are what takes longest to make and does not depend on the order, so pairs are made ahead
//! while there is nothing else to do. A pair serves one sandbox. In a burst, when none are left, init is
//! born into a user namespace of its own and makes its network by itself: the launcher does one thing at
//! a time, and inits run beside each other.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{getegid, geteuid};
use sandboxd_linux::clone::{self, Options};
use sandboxd_linux::network;
use sandboxd_linux::process::collect_child;
use sandboxd_linux::protocol::{Failure, IdRange, Step};

use super::ids::Ids;
use crate::failure::{At as _, failure};

/// The namespaces of one sandbox to be.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) user: OwnedFd,
    pub(super) network: OwnedFd,
    pub(super) ids: IdRange,
}

/// Where an init is born.
#[derive(Debug)]
pub(super) enum Birthplace {
    /// In namespaces that are there already.
    Pair(Pair),
    /// In a user namespace that is made with it, for which these ids are set aside.
    Own(IdRange),
}

impl Birthplace {
    pub(super) const fn ids(&self) -> IdRange {
        match self {
            Self::Pair(pair) => pair.ids,
            Self::Own(ids) => *ids,
        }
    }
}

/// Pairs that were made ahead.
#[derive(Debug)]
pub(super) struct Pool {
    ids: Ids,
    ready: VecDeque<Pair>,
    size: usize,
    /// Whether the last pair ahead could not be made, and nothing has been given back since.
    exhausted: bool,
}

impl Pool {
    pub(super) const fn new(ids: Ids, size: usize) -> Self {
        Self { ids, ready: VecDeque::new(), size, exhausted: false }
    }

    /// Whether [`Self::refill`] has something to do.
    pub(super) fn wants_more(&self) -> bool {
        !self.exhausted && self.ready.len() < self.size
    }

    /// Makes one pair ahead. When that fails the pool stops asking for more until a sandbox has ended:
    /// the failure will come back at a launch, where somebody can be told.
    pub(super) fn refill(&mut self) {
        match self.make(make_pair) {
            Ok(pair) => self.ready.push_back(pair),
            Err(_) => self.exhausted = true,
        }
    }

    /// A pair that was made ahead. If there is none: ids alone, if init `can_make_its_own`
    /// namespaces, which is faster; else a pair made now.
    pub(super) fn take(&mut self, can_make_its_own: bool) -> Result<Birthplace, Failure> {
        match self.ready.pop_front() {
            Some(pair) => Ok(Birthplace::Pair(pair)),
            // The entry in `/proc` through which ids are mapped belongs to root.
            None if can_make_its_own && is_root() => self.make(|ids| Ok(Birthplace::Own(ids))),
            None => self.make(make_pair).map(Birthplace::Pair),
        }
    }

    /// Gives the ids of an ended sandbox back.
    pub(super) fn give_back(&mut self, ids: IdRange) {
        self.exhausted = false;
        // An ordinary user has one id, and every sandbox has that one.
        if is_root() {
            self.ids.give_back(ids);
        }
    }

    fn make<T>(&mut self, make: impl FnOnce(IdRange) -> Result<T, Failure>) -> Result<T, Failure> {
        let ids = if is_root() {
            let exhausted = io::Error::from_raw_os_error(libc::EAGAIN);
            self.ids.take().ok_or_else(|| failure(Step::IdMap, &exhausted, "id ranges"))?
        } else {
            IdRange { first: geteuid().as_raw(), count: 1 }
        };
        make(ids).inspect_err(|_| self.give_back(ids))
    }
}

/// Whether ranges of ids can be mapped, rather than only our own.
fn is_root() -> bool {
    geteuid().is_root()
}

fn make_pair(ids: IdRange) -> Result<Pair, Failure> {
    // The child keeps the namespaces alive until they are opened and mapped: it ends when the pipe
    // does.
    let (end, begin) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).at(Step::Other)?;
    let namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWNET;
    let options = Options { namespaces, ..Options::default() };
    // SAFETY: the launcher has a single thread.
    let Some(pid) = unsafe { clone::fork(options) }.at(Step::Namespaces)? else {
        drop(begin);
        hold(&end);
    };
    let pair = open(pid, ids);
    drop(begin);
    let ended = collect_child(pid).at(Step::Other)?;
    let pair = pair?;
    match libc::WEXITSTATUS(ended.status) {
        0 => Ok(pair),
        errno => Err(failure(Step::Network, &io::Error::from_raw_os_error(errno), "lo")),
    }
}

/// The child: brings the loopback up and says how that went when it is allowed to end.
fn hold(end: &OwnedFd) -> ! {
    let errno = network::bring_loopback_up()
        .err()
        .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    let _ = rustix::io::read(end, &mut [0; 1]);
    // SAFETY: ends the child without running the launcher's exit handlers.
    unsafe { libc::_exit(errno) }
}

fn open(pid: u32, ids: IdRange) -> Result<Pair, Failure> {
    let user = map_and_open(pid, ids)?;
    Ok(Pair { user, network: open_namespace(pid, "net")?, ids })
}

/// Maps the ids of a child's user namespace and opens it.
pub(super) fn map_and_open(pid: u32, ids: IdRange) -> Result<OwnedFd, Failure> {
    let write = |name: &str, text: String| {
        fs::write(format!("/proc/{pid}/{name}"), text)
            .map_err(|error| failure(Step::IdMap, &error, name))
    };
    let IdRange { first, count } = ids;
    let group = if is_root() {
        first
    } else {
        // The kernel's condition for mapping one's own group without privilege.
        write("setgroups", "deny".to_owned())?;
        getegid().as_raw()
    };
    write("uid_map", format!("0 {first} {count}"))?;
    write("gid_map", format!("0 {group} {count}"))?;
    open_namespace(pid, "user")
}

fn open_namespace(pid: u32, name: &str) -> Result<OwnedFd, Failure> {
    Ok(fs::File::open(format!("/proc/{pid}/ns/{name}")).at(Step::Namespaces)?.into())
}
