//! Code made from `proto/` by `make proto`; a test fails when it is out of date.

#[allow(
    clippy::all,
    clippy::pedantic,
    missing_debug_implementations,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    reason = "generated code is not ours to style"
)]
#[rustfmt::skip]
#[path = "gen/sandboxd.agent.v1.rs"]
pub mod v1;
