//! Init's loop.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sandboxd_linux::memory::Region;
use sandboxd_linux::protocol::{ExecView, FromInit, MAX_PACKET, Step, ToInitView};
use sandboxd_linux::seqpacket::{self, Descriptors, Wait};
use sandboxd_linux::signals;

use super::reaper::{Process, Reaper};
use super::report::{exited, send};
use super::start::Starter;
use crate::failure::failure;

/// Where init keeps its socket to the agent; everything above is closed.
pub(crate) const CONTROL: RawFd = 3;

/// Puts the socket where [`CONTROL`] says.
///
/// # Errors
///
/// When descriptors run out.
pub(crate) fn place(control: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    if control.as_raw_fd() == CONTROL {
        rustix::io::fcntl_setfd(control, rustix::io::FdFlags::CLOEXEC)?;
    } else {
        // SAFETY: only names the number to replace; whoever owned it never runs again here.
        let mut target = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(CONTROL) });
        rustix::io::dup3(control, &mut target, rustix::io::DupFlags::CLOEXEC)?;
    }
    // SAFETY: the socket is there now, and the launcher's owner of it never runs again here.
    Ok(unsafe { OwnedFd::from_raw_fd(CONTROL) })
}

/// Serves the agent until it closes the socket; then ends, and with it everything in the sandbox.
pub(crate) fn run(control: OwnedFd) -> ! {
    let code = i32::from(serve(control).is_err());
    // SAFETY: ends init without running the launcher's exit handlers.
    unsafe { libc::_exit(code) }
}

fn serve(control: OwnedFd) -> io::Result<()> {
    let signals = signals::descriptor(&[libc::SIGCHLD])?;
    let null = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), CONTROL)?;
    let mut init = Init { control, reaper: Reaper::new(), starter: Starter::new(null)? };
    let mut buffer = Region::new(MAX_PACKET)?;
    loop {
        let mut ready =
            [PollFd::new(&init.control, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let [order, signal] = ready.map(|ready| !ready.revents().is_empty());
        // Ends before beginnings: somebody waits for an end, and a vfork would hold it up.
        if signal {
            while signals::take(&signals).is_some() {}
            init.reap()?;
        }
        if order {
            match seqpacket::receive(&init.control, &mut buffer, Wait::Never) {
                Ok(received) if received.length == 0 => return Ok(()),
                Ok(received) => init.handle(&buffer[..received.length], received.descriptors)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

struct Init {
    control: OwnedFd,
    reaper: Reaper,
    starter: Starter,
}

impl Init {
    fn handle(&mut self, packet: &[u8], mut descriptors: Descriptors) -> io::Result<()> {
        let order = ToInitView::decode(packet)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match order {
            ToInitView::Exec(order) => self.start(&order, &mut descriptors),
            ToInitView::Signal { exec, signal } => {
                self.reaper.signal(exec, signal);
                Ok(())
            }
            ToInitView::SignalAll { exec, signal } => {
                self.reaper.signal_all(exec, signal);
                Ok(())
            }
        }
    }

    fn start(&mut self, order: &ExecView<'_>, descriptors: &mut Descriptors) -> io::Result<()> {
        let exec = order.exec;
        let started = if self.reaper.is_full() {
            Err(failure(Step::Table, &io::Error::from_raw_os_error(libc::EAGAIN), ""))
        } else {
            self.starter.start(&self.control, order, descriptors)
        };
        match started {
            Ok(running) => {
                let pid = running.pid;
                // A warden says so itself, with the pid of the program.
                let tell = order.want_started && matches!(running.process, Process::Main { .. });
                self.reaper.add(running);
                if tell { send(&self.control, &FromInit::Started { exec, pid }) } else { Ok(()) }
            }
            Err(failure) => send(&self.control, &FromInit::StartFailed { exec, failure }),
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        let control = &self.control;
        let mut sent = Ok(());
        self.reaper.reap(|running, ended| {
            if sent.is_ok() {
                sent = send(control, &exited(running.exec, ended));
            }
        });
        sent
    }
}
