//! Init of a sandbox that stands: starts processes, signals them, reports how they ended.

mod payload;
mod program;
mod reaper;
mod run;
mod start;

pub(crate) use run::{CONTROL, place, run};
