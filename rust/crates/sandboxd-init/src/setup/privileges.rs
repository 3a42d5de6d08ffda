//! What nothing in the sandbox will ever be able to do.

use rustix::thread::{CapabilitySet, set_no_new_privs};
use sandboxd_linux::capabilities::{CONTAINER, bound};
use sandboxd_linux::protocol::{Failure, Step};

use super::plan::Plan;
use crate::failure::At as _;

/// Cuts down what programs can get. Init itself keeps its capabilities, so that no program has as
/// many and could trace it.
pub(super) fn restrict(plan: &Plan<'_>) -> Result<(), Failure> {
    let keep = if plan.hardened { CapabilitySet::empty() } else { CONTAINER };
    bound(keep).at(Step::Capabilities)?;
    if plan.hardened {
        set_no_new_privs(true).at(Step::Capabilities)?;
    }
    plan.filter.install().at(Step::Seccomp)
}
