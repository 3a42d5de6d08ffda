//! Init's loop.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{DupFlags, Errno, dup3, fcntl_dupfd_cloexec};
use sandboxd_linux::memory::Region;
use sandboxd_linux::process::{Ended, close_from};
use sandboxd_linux::protocol::{ExecView, FromInit, MAX_PACKET, Step, ToInitView};
use sandboxd_linux::seqpacket::{self, Wait};
use sandboxd_linux::signals;

use super::reaper::{Process, Reaper};
use super::report::{exited, send};
use super::score::{Score, Scores};
use super::start::Starter;
use crate::failure::failure;

/// Where init keeps its descriptors; everything above is closed.
const CONTROL: RawFd = 3;
const SCORE: RawFd = 4;
const REST: RawFd = 5;

/// How often processes that are being killed are looked after.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Clear of everything above, for moving descriptors about.
const ASIDE: RawFd = 64;

/// What init needs of the world after its setup.
#[derive(Debug)]
pub(crate) struct Descriptors {
    control: OwnedFd,
    score: OwnedFd,
}

impl Descriptors {
    /// Keeps these two and closes all others above the standard ones.
    ///
    /// # Safety
    ///
    /// No descriptor of this process is used or dropped afterwards, apart from the returned ones.
    ///
    /// # Errors
    ///
    /// When descriptors run out.
    pub(crate) unsafe fn keep(control: BorrowedFd<'_>, score: BorrowedFd<'_>) -> io::Result<Self> {
        // Either may be where the other has to go.
        let control = fcntl_dupfd_cloexec(control, ASIDE)?;
        let score = fcntl_dupfd_cloexec(score, ASIDE)?;
        let kept = Self { control: place(&control, CONTROL)?, score: place(&score, SCORE)? };
        drop((control, score));
        // SAFETY: as promised by the caller.
        unsafe { close_from(REST) }?;
        Ok(kept)
    }
}

/// Makes `number` another name of the descriptor, whatever it was before.
fn place(descriptor: &OwnedFd, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only names the number to replace, and is not dropped.
    let mut target = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
    dup3(descriptor, &mut target, DupFlags::CLOEXEC)?;
    Ok(ManuallyDrop::into_inner(target))
}

/// Serves the agent until it closes the socket; then ends, and with it everything in the sandbox.
pub(crate) fn run(descriptors: Descriptors, scores: Scores) -> ! {
    let code = i32::from(serve(descriptors, scores).is_err());
    // SAFETY: ends init without running the launcher's exit handlers.
    unsafe { libc::_exit(code) }
}

fn serve(Descriptors { control, score }: Descriptors, scores: Scores) -> io::Result<()> {
    let signals = signals::descriptor(&[libc::SIGCHLD])?;
    let null = fcntl_dupfd_cloexec(rustix::stdio::stdin(), REST)?;
    let mut init = Init {
        control,
        reaper: Reaper::new(),
        starter: Starter::new(null, Score::new(score, scores))?,
    };
    let mut buffer = Region::new(MAX_PACKET)?;
    loop {
        let mut ready =
            [PollFd::new(&init.control, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut ready, init.reaper.is_killing().then_some(&LOOK)) {
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
        init.kill()?;
    }
}

struct Init {
    control: OwnedFd,
    reaper: Reaper,
    starter: Starter,
}

impl Init {
    fn handle(&mut self, packet: &[u8], mut descriptors: seqpacket::Descriptors) -> io::Result<()> {
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
            // A vfork is over when the program runs: nothing of the orders before is under way.
            ToInitView::Sync { number } => send(&self.control, &FromInit::Synced { number }),
        }
    }

    fn start(
        &mut self,
        order: &ExecView<'_>,
        descriptors: &mut seqpacket::Descriptors,
    ) -> io::Result<()> {
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
        let mut reports = Reports::to(&self.control);
        self.reaper.reap(|exec, ended| reports.add(exec, ended));
        reports.sent
    }

    fn kill(&mut self) -> io::Result<()> {
        let mut reports = Reports::to(&self.control);
        self.reaper.kill(|exec, ended| reports.add(exec, ended));
        reports.sent
    }
}

/// Ends of execs, sent until that fails.
struct Reports<'a> {
    control: &'a OwnedFd,
    sent: io::Result<()>,
}

impl<'a> Reports<'a> {
    const fn to(control: &'a OwnedFd) -> Self {
        Self { control, sent: Ok(()) }
    }

    fn add(&mut self, exec: u32, ended: &Ended) {
        if self.sent.is_ok() {
            self.sent = send(self.control, &exited(exec, ended));
        }
    }
}
