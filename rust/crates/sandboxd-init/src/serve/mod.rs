//! Init of a sandbox that stands: starts processes, signals them, reports how they ended.

mod descendants;
mod payload;
mod program;
mod reaper;
mod report;
mod run;
mod score;
mod start;
mod warden;

pub(crate) use run::{Descriptors, run};
pub(crate) use score::Scores;
