//! What this host can enforce: found by trying, not by asking for versions.

mod child;
mod namespaces;
mod probe;
mod report;

pub(crate) use child::run as run_probe;
pub(crate) use probe::probe;
pub(crate) use report::report;
