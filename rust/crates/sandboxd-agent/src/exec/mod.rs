//! Execs: programs that run in a sandbox, from their start to what is kept of them.

mod attach;
mod cause;
mod clocks;
mod collect;
mod command;
mod cost;
mod descriptors;
mod driver;
mod entry;
mod environment;
mod finish;
mod forgotten;
mod grace;
mod head_tail;
mod identity;
mod kept;
mod leaves;
mod list;
mod output;
mod pipes;
mod readers;
mod service;
mod spill;
mod start;
mod stdin;
mod table;
mod terminal;
mod users;
mod window;

pub(crate) use cause::Hit;
pub(crate) use command::{check_directory, check_variable, parse_user};
pub(crate) use entry::{Exec, Exited, Report};
pub(crate) use identity::{Claimed, Identity};
pub(crate) use leaves::LeafPool;
pub(crate) use list::Execs;
pub(crate) use spill::Space;
pub(crate) use start::{Entered, Entry, Mode, abandon, begin, enter, has_leaves};
#[cfg(test)]
pub(crate) use table::Find;
