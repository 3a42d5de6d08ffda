//! `sandboxd-agent`: serves the sandboxes of one machine.
#![forbid(unsafe_code)]

mod agent;
mod call;
mod capabilities;
mod cli;
mod exec;
mod launcher;
mod lock;
mod packets;
mod sandboxes;
mod server;
mod state;
mod templates;
mod watch;

fn main() {}
