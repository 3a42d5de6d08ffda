//! `sandboxd-agent`: serves the sandboxes of one machine.
#![forbid(unsafe_code)]

mod call;
mod capabilities;
mod server;
mod state;
mod templates;
mod watch;

fn main() {}
