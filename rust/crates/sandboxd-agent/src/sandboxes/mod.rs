//! Sandboxes: who holds which, and what becomes of each from its claim to its end.

mod cpus;
mod deadlines;
mod enclosure;
mod failures;
mod keeper;
mod limits;
mod root;
mod sandbox;
mod service;
mod share;
mod spec;
mod table;

pub(crate) use cpus::Cpus;
pub(crate) use deadlines::watch as watch_deadlines;
pub(crate) use enclosure::{Baseline, Enclosure};
pub(crate) use keeper::{keep, keep_grader};
pub(crate) use limits::cpu_count;
pub(crate) use root::SandboxRoot;
pub(crate) use sandbox::{Sandbox, unix_nanos};
pub(crate) use share::Unbound;
pub(crate) use spec::check_id;
pub(crate) use table::SandboxTable;
