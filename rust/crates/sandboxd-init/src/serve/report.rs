//! Reports to the agent.

use std::io;
use std::os::fd::OwnedFd;

use sandboxd_linux::process::Ended;
use sandboxd_linux::protocol::FromInit;
use sandboxd_linux::seqpacket::{self, Wait};

/// That the main process of an exec has ended.
pub(super) const fn exited(exec: u32, ended: &Ended) -> FromInit {
    FromInit::Exited { exec, status: ended.status, usage: ended.usage }
}

/// Sends a report, waiting for room: the agent always reads. An error means that there is nobody left
/// to serve.
pub(super) fn send(control: &OwnedFd, report: &FromInit) -> io::Result<()> {
    seqpacket::send(control, &report.encode(), &[], Wait::Forever)
}
