//! The launcher and its inits on this machine: real namespaces, mounts and groups.
//!
//! Most tests need root, and say so when they are skipped. Each ends as a killed agent does and checks
//! that nothing is left.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not know as tests")]
#![expect(clippy::print_stdout, reason = "a skipped test says why")]

mod execs;
mod freezers;
mod isolation;
mod launches;
mod ordinary;
mod support;
mod wardens;
