//! `sandboxd-agent`: serves the sandboxes of one machine.
#![forbid(unsafe_code)]

mod call;
mod capabilities;
mod state;
mod templates;

fn main() {}
