//! From a bare clone in new namespaces to the init of a sandbox that stands.
//!
//! Order matters here: the namespaces first, since everything else happens in them; then the identity,
//! since every change of it undoes other settings; the mounts while we may still mount; the filter
//! last, since it forbids most of what came before.

mod devices;
mod identity;
mod namespaces;
mod plan;
mod privileges;
mod proc;
mod root;

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use sandboxd_linux::protocol::{Failure, FromInit, Step};
use sandboxd_linux::seqpacket::{self, Wait};

pub(crate) use plan::{Gate, Layer, Overlay, Plan};

use crate::failure::At as _;
use crate::serve::{self, Descriptors};

/// Sets the sandbox up, tells the agent, and serves it until it is gone.
pub(crate) fn become_init(plan: &Plan<'_>) -> ! {
    match set_up(plan) {
        Ok(descriptors) => serve::run(descriptors, plan.scores),
        Err(failure) => {
            let packet = FromInit::SetupFailed(failure).encode();
            let _ = seqpacket::send(plan.control, &packet, &[], Wait::Forever);
            // SAFETY: ends init without running the launcher's exit handlers.
            unsafe { libc::_exit(1) }
        }
    }
}

/// Enters v1 groups through their `tasks` files. Allocates nothing.
pub(crate) fn join_groups(tasks: &[OwnedFd]) -> rustix::io::Result<()> {
    tasks.iter().try_for_each(|tasks| rustix::io::write(tasks, b"0").map(drop))
}

fn pass(gate: &Gate<'_>) -> Result<(), Failure> {
    join_groups(gate.tasks).at(Step::Cgroup)?;
    match rustix::io::read(gate.wait, &mut [0; 1]).at(Step::IdMap)? {
        // The launcher has told the agent, or is gone.
        0 => Err(io::Error::from_raw_os_error(libc::ECANCELED)).at(Step::IdMap),
        _ => Ok(()),
    }
}

fn set_up(plan: &Plan<'_>) -> Result<Descriptors, Failure> {
    if let Some(gate) = &plan.gate {
        pass(gate)?;
    }
    // Its owner changes with ours, to one that we have no rights over.
    let score = ManuallyDrop::new(
        open(c"/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .at(Step::Other)?,
    );
    namespaces::leave(plan)?;
    identity::assume(plan)?;
    let disk = root::build(plan)?;
    identity::name_host(plan)?;
    privileges::restrict(plan)?;
    announce(plan.control, disk.as_fd())?;
    drop(disk);
    keep_only(plan.control, score.as_fd())
}

/// Gives the agent the root, and the writable layer, whose size it may change.
fn announce(control: BorrowedFd<'_>, disk: BorrowedFd<'_>) -> Result<(), Failure> {
    let root = open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).at(Step::Mount)?;
    let packet = FromInit::Ready.encode();
    seqpacket::send(control, &packet, &[root.as_fd(), disk], Wait::Forever).at(Step::Other)
}

/// Closes everything else that came from the launcher.
fn keep_only(control: BorrowedFd<'_>, score: BorrowedFd<'_>) -> Result<Descriptors, Failure> {
    let null = open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .at_path(Step::Mount, c"/dev/null")?;
    rustix::stdio::dup2_stdin(&null).at(Step::Descriptor)?;
    rustix::stdio::dup2_stdout(&null).at(Step::Descriptor)?;
    rustix::stdio::dup2_stderr(&null).at(Step::Descriptor)?;
    drop(null);
    // SAFETY: all other owners live in frames of the launcher, which are never returned to here.
    unsafe { Descriptors::keep(control, score) }.at(Step::Descriptor)
}
