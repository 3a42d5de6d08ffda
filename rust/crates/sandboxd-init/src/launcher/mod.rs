//! The launcher: makes sandboxes on the agent's order, reaps their inits, and clears up after the
//! agent when it is gone.

mod cleanup;
mod crew;
mod ids;
mod launch;
mod namespaces;
mod options;
mod serve;
mod shelf;

pub(crate) use options::Options;
pub(crate) use serve::run;
