//! The namespaces that init was not born into.

use rustix::thread::UnshareFlags;
use sandboxd_linux::network::bring_loopback_up;
use sandboxd_linux::protocol::{Failure, Step};
use sandboxd_linux::unshare::unshare;

use super::plan::Plan;
use crate::failure::At as _;

/// Leaves what init shares with the launcher. The new ones belong to the sandbox's user namespace.
pub(super) fn leave(plan: &Plan<'_>) -> Result<(), Failure> {
    let mut shared = UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if plan.makes_network {
        shared |= UnshareFlags::NEWNET;
    }
    unshare(shared).at(Step::Namespaces)?;
    if plan.makes_network {
        bring_loopback_up().at(Step::Network)?;
    }
    Ok(())
}
