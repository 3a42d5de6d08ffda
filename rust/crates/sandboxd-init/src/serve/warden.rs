//! Containment where no cgroup can be written: a process of our own above each exec.
//!
//! A warden is a fork of init that adopts all orphans below it (`PR_SET_CHILD_SUBREAPER`), so whatever
//! the program starts stays its descendant. It starts the program, reports its end to the agent
//! by itself, and stays until the last descendant is gone. Invariant: init collects the warden,
//! the warden collects everything below it, and nobody else does.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sandboxd_linux::process::{Ended, become_subreaper, collect_any, kill};
use sandboxd_linux::protocol::{ExecView, FromInit};
use sandboxd_linux::seqpacket::{self, Descriptors, Wait};
use sandboxd_linux::signals;

use super::descendants::{self, Kill};
use super::report::{exited, send};
use super::start::Starter;

/// Time between rounds over descendants that are being killed.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

const MAIN: u8 = 0;
const ALL: u8 = 1;

/// Init's end of the socket to a warden.
#[derive(Debug)]
pub(super) struct Leash(OwnedFd);

impl Leash {
    pub(super) const fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    pub(super) fn signal(&self, signal: i32) {
        self.send(MAIN, signal);
    }

    pub(super) fn signal_all(&self, signal: i32) {
        self.send(ALL, signal);
    }

    /// Whether the warden, which has ended, had reported the end of the program before.
    pub(super) fn has_reported(&self) -> bool {
        seqpacket::receive(&self.0, &mut [0; 8], Wait::Never)
            .is_ok_and(|received| received.length > 0)
    }

    fn send(&self, target: u8, signal: i32) {
        let [a, b, c, d] = signal.to_le_bytes();
        // A warden that is gone, or has more orders than it can take, is about to be done anyway.
        let _ = seqpacket::send(&self.0, &[target, a, b, c, d], &[], Wait::Never);
    }
}

/// The warden's side.
#[derive(Debug)]
pub(super) struct Warden<'a> {
    pub(super) control: &'a OwnedFd,
    pub(super) leash: OwnedFd,
}

impl Warden<'_> {
    /// In the fork: starts the program and serves until nothing is left below.
    pub(super) fn run(
        self,
        starter: &mut Starter,
        order: &ExecView<'_>,
        descriptors: &mut Descriptors,
    ) -> ! {
        let code = i32::from(self.serve(starter, order, descriptors).is_err());
        // SAFETY: ends the warden without running init's exit handlers.
        unsafe { libc::_exit(code) }
    }

    fn serve(
        &self,
        starter: &mut Starter,
        order: &ExecView<'_>,
        descriptors: &mut Descriptors,
    ) -> io::Result<()> {
        become_subreaper()?;
        let signals = signals::descriptor(&[libc::SIGCHLD])?;
        let exec = order.exec;
        let running = match starter.start_program(order, descriptors) {
            Ok(running) => running,
            Err(failure) => {
                send(self.control, &FromInit::StartFailed { exec, failure })?;
                return self.mark_reported();
            }
        };
        let main = running.pid;
        if order.want_started {
            send(self.control, &FromInit::Started { exec, pid: main })?;
        }
        let mut running = Some(running);
        let mut kill_all = None;
        loop {
            let mut ready =
                [PollFd::new(&self.leash, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
            match poll(&mut ready, kill_all.as_ref().map(|_| &PAUSE)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let [order, _] = ready.map(|ready| !ready.revents().is_empty());
            while signals::take(&signals).is_some() {}
            if order {
                match self.order()? {
                    (MAIN, signal) if running.is_some() => drop(kill(main, signal)),
                    (ALL, libc::SIGKILL) => kill_all = Some(Kill::new()),
                    (ALL, signal) => descendants::signal(signal),
                    _ => {}
                }
            }
            if let Some(kill_all) = &kill_all {
                kill_all.round();
            }
            let left = collect(|ended| {
                if ended.pid == main {
                    send(self.control, &exited(exec, ended))?;
                    self.mark_reported()?;
                    running = None;
                }
                Ok(())
            })?;
            if !left {
                return Ok(());
            }
        }
    }

    fn order(&self) -> io::Result<(u8, i32)> {
        let mut packet = [0; 5];
        let received = seqpacket::receive(&self.leash, &mut packet, Wait::Never)?;
        if received.length < packet.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let [target, signal @ ..] = packet;
        Ok((target, i32::from_le_bytes(signal)))
    }

    /// After the report: should we be killed in between, init reports once more, which the agent can
    /// tell; the other way round, the exec would never end.
    fn mark_reported(&self) -> io::Result<()> {
        seqpacket::send(&self.leash, &[1], &[], Wait::Never)
    }
}

/// Collects every child that has ended. Returns whether there are others.
fn collect(mut each: impl FnMut(&Ended) -> io::Result<()>) -> io::Result<bool> {
    loop {
        match collect_any() {
            Ok(Some(ended)) => each(&ended)?,
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
}
