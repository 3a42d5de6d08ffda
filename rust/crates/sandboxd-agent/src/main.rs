//! `sandboxd-agent`: serves the sandboxes of one machine.
#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command};

mod agent;
mod call;
mod capabilities;
mod cli;
mod counters;
mod doctor;
mod exec;
mod files;
mod graders;
mod launcher;
mod lock;
mod packets;
mod sandboxes;
mod serve;
mod server;
mod state;
mod templates;
mod watch;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    match cli.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Version => print(concat!("sandboxd-agent ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Doctor(arguments) => print(&doctor::report(&arguments)),
        Command::Probe => doctor::run_probe(),
    }
}

/// Level by `SANDBOXD_AGENT_LOG`, such as `info` or `sandboxd_agent=debug`; `warn` by default.
fn log_to_stderr() {
    let filter =
        EnvFilter::try_from_env("SANDBOXD_AGENT_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever listened has gone; there is nobody to tell.
        Err(_) => ExitCode::FAILURE,
    }
}
