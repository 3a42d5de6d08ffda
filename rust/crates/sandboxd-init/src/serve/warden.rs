//! Containment where no cgroup can be written: a process of our own above each exec.
//!
//! A warden is a fork of init that adopts all orphans below it (`PR_SET_CHILD_SUBREAPER`), so whatever
//! the program starts stays its descendant. It starts the program, reports its end to the agent
//! by itself, and stays until the last descendant is gone. Invariant: init collects the warden,
//! the warden collects everything below it, and nobody else does.
//!
//! Programs of the same user can stop and kill a warden, though not trace it. So nothing that has to
//! happen depends on it: init continues one that was stopped, kills what is below it by itself, and
//! kills what is left of one that was killed.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sandboxd_linux::process::{Ended, become_subreaper, collect_any, kill};
use sandboxd_linux::protocol::{ExecView, FromInit};
use sandboxd_linux::seqpacket::{self, Descriptors, Wait};
use sandboxd_linux::signals;

use super::report::{exited, send};
use super::start::Starter;

/// In place of a pid: that the end of the program has been reported.
const REPORTED: u32 = 0;

/// Init's end of the socket to a warden.
#[derive(Debug)]
pub(super) struct Leash(OwnedFd);

/// What a warden that has ended had told.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// The program that it started.
    pub(super) program: Option<u32>,
    /// Whether it had reported the end of the program.
    pub(super) reported: bool,
}

impl Leash {
    pub(super) const fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Has the warden signal the program, if that has not ended.
    pub(super) fn signal(&self, signal: i32) {
        // A warden that is gone, or has more orders than it can take, is about to be done anyway.
        let _ = seqpacket::send(&self.0, &signal.to_le_bytes(), &[], Wait::Never);
    }

    pub(super) fn told(&self) -> Told {
        let mut told = Told::default();
        while let Some(word) = word(&self.0) {
            match word {
                REPORTED => told.reported = true,
                program => told.program = Some(program),
            }
        }
        told
    }
}

/// The next word from the other end, if there is one.
fn word(socket: &OwnedFd) -> Option<u32> {
    let mut packet = [0; 4];
    let received = seqpacket::receive(socket, &mut packet, Wait::Never).ok()?;
    (received.length == packet.len()).then(|| u32::from_le_bytes(packet))
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
        self.tell(main)?;
        if order.want_started {
            send(self.control, &FromInit::Started { exec, pid: main })?;
        }
        let mut running = Some(running);
        loop {
            let mut ready =
                [PollFd::new(&self.leash, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let [order, _] = ready.map(|ready| !ready.revents().is_empty());
            while signals::take(&signals).is_some() {}
            if order {
                let signal = word(&self.leash).ok_or(io::ErrorKind::UnexpectedEof)?;
                if running.is_some() {
                    let _ = kill(main, signal.cast_signed());
                }
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

    /// After the report: should we be killed in between, init reports once more, which the agent can
    /// tell; the other way round, the exec would never end.
    fn mark_reported(&self) -> io::Result<()> {
        self.tell(REPORTED)
    }

    fn tell(&self, word: u32) -> io::Result<()> {
        seqpacket::send(&self.leash, &word.to_le_bytes(), &[], Wait::Never)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_learns_what_a_warden_did_before_it_ended() {
        let (ours, theirs) = seqpacket::pair().unwrap();
        let (control, _agent) = seqpacket::pair().unwrap();
        let leash = Leash::new(ours);
        assert_eq!(leash.told(), Told::default());
        let warden = Warden { control: &control, leash: theirs };
        warden.tell(7).unwrap();
        leash.signal(libc::SIGTERM);
        assert_eq!(word(&warden.leash), Some(libc::SIGTERM.cast_unsigned()));
        assert_eq!(leash.told(), Told { program: Some(7), reported: false });
        warden.mark_reported().unwrap();
        drop(warden);
        assert_eq!(leash.told(), Told { program: None, reported: true });
    }
}
