//! Control groups: limits of sandboxes, and a way to end everything that an exec started.
//!
//! Two drivers, one per version, behind one trait; a hybrid machine uses both: limits where the
//! controllers are, leaves on v2 although it has no controllers there. What the machine has is found
//! from two texts of `/proc` ([`Layout::parse`]), so every kind of machine can be tested anywhere.
//!
//! The agent's tree is `…/sandboxd-<pid>-<start time>/`, beneath the agent's own group of each
//! hierarchy; in it `sb-<number>` per sandbox, in that one `x<number>` per leaf. All calls are
//! short and blocking.

#[cfg(test)]
mod double;
mod driver;
mod files;
mod layout;
mod meter;
mod owner;
mod remove;
mod tree;
mod v1;
#[cfg(test)]
mod v1_tests;
mod v2;
#[cfg(test)]
mod v2_tests;

pub use driver::{Controls, Counters, Hits, Limits};
pub use layout::Layout;
pub use owner::{Owner, living_since};
pub use remove::{remove_tree, thaw_tree};
pub use tree::{Cgroups, Join, Leaf, SandboxCgroup};
