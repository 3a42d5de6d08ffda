//! `sandboxd-init`: the launcher of an agent's sandboxes, and init of each of them.
//!
//! One binary: the launcher is a small process that clones itself, and the clone, already in its
//! namespaces, becomes init without an exec. So whatever the launcher has in memory is shared by all
//! inits until one of them writes to it: tables stay small and are built before the first clone.
//!
//! Both are single-threaded, which is what makes the raw clones in `sandboxd-linux` sound.

use std::process::ExitCode;

mod failure;
mod launcher;
mod memory;
mod serve;
mod setup;

// Tests have several threads.
#[cfg(not(test))]
#[global_allocator]
static MEMORY: memory::Dense = memory::Dense::new();

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("launcher") => match launcher::Options::parse(arguments) {
            Ok(options) => launcher::run(&options),
            Err(message) => usage(&message),
        },
        Some("version") => {
            say(concat!("sandboxd-init ", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        _ => usage("expected `launcher` or `version`"),
    }
}

#[expect(clippy::print_stdout, reason = "the answer of `version`")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "there is nobody else to tell yet")]
fn usage(message: &str) -> ExitCode {
    eprintln!("sandboxd-init: {message}; it is started by sandboxd-agent");
    ExitCode::from(2)
}
