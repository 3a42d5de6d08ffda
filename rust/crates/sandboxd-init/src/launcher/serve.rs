//! The launcher's loop.
//!
//! Invariant: the launcher alone collects its children. An init is in the table from before its status
//! can be collected until it is. Others have done their part before control returns here, and are
//! collected with the inits that ended.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use sandboxd_linux::cgroup;
use sandboxd_linux::memory::Region;
use sandboxd_linux::process::{Ended, close_from, collect_any};
use sandboxd_linux::protocol::{FromLauncher, Hello, IdRange, Launch, MAX_PACKET, Step};
use sandboxd_linux::seccomp::Filter;
use sandboxd_linux::seqpacket::{self, Received, Wait};
use sandboxd_linux::signals;
use sandboxd_linux::title::Title;

use super::Options;
use super::cleanup::clear_up;
use super::crew::Crew;
use super::ids::Ids;
use super::launch::{Kit, Workshop, end};
use super::namespaces::Pool;
use super::shelf::Shelf;
use crate::failure::failure;
use crate::serve::Scores;

/// Signals that are read instead of acted on. The first two end the launcher in order.
const SIGNALS: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD];

/// Why the launcher ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nobody else is left to clear up.
    AgentIsGone,
    /// A signal asked for it. The agent lives, and goes on with another launcher.
    Asked,
}

/// Orders that ends may have to wait for. Whoever waits for an order waits longer, and looking for
/// ends takes the longer the more children there are.
const ORDERS_BEFORE_ENDS: u32 = 16;

/// How long no order comes until there is nothing else to do. In a burst, a pair made ahead between
/// two orders would cost more than it saves.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 3_000_000 };

/// An init that runs.
#[derive(Debug)]
struct Running {
    pid: u32,
    number: u32,
    ids: IdRange,
}

#[derive(Debug)]
struct Launcher {
    socket: OwnedFd,
    pool: Pool,
    workshop: Workshop,
    running: Vec<Running>,
}

/// Serves the agent on standard input until it is gone, or a signal asks to end. Then ends every
/// sandbox, and clears up after an agent that is gone.
pub(crate) fn run(options: &Options) -> ExitCode {
    match Launcher::start(options) {
        Ok((mut launcher, signals)) => {
            let outcome = launcher.serve(&signals);
            launcher.end_all(&options.cgroups);
            drop(launcher);
            if matches!(outcome, Ok(End::AgentIsGone)) {
                clear_up(&options.cgroups, options.state.as_ref());
            }
            outcome.map_or(ExitCode::FAILURE, |_| ExitCode::SUCCESS)
        }
        Err(error) => report(&error),
    }
}

#[expect(clippy::print_stderr, reason = "standard error is the agent's log")]
fn report(error: &io::Error) -> ExitCode {
    eprintln!("sandboxd-init: launcher cannot start: {error}");
    ExitCode::FAILURE
}

impl Launcher {
    fn start(options: &Options) -> io::Result<(Self, OwnedFd)> {
        // SAFETY: nothing was opened yet but the standard descriptors.
        unsafe { close_from(3) }?;
        signals::reset(&SIGNALS);
        let signals = signals::descriptor(&SIGNALS)?;
        // Interrupts from the agent's terminal are for the agent.
        let _ = rustix::process::setsid();
        let scores = lower_chances()?;
        let _ = rustix::thread::set_name(c"sandboxd-launch");
        let socket = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let null = fs::File::options().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        let launcher = Self {
            socket,
            pool: Pool::new(Ids::new(options.ids), options.pool),
            workshop: Workshop {
                crew: Crew::new()?,
                shelf: Shelf::new(options.state.clone()),
                kit: Kit { filter: Filter::new(), title: Title::find()?, scores },
            },
            running: Vec::new(),
        };
        Ok((launcher, signals))
    }

    /// Runs until the agent is gone or a signal asks to end.
    fn serve(&mut self, signals: &OwnedFd) -> io::Result<End> {
        match self.serve_orders(signals) {
            // An answer that nobody takes any more.
            Err(error) if is_hang_up(&error) => Ok(End::AgentIsGone),
            end => end,
        }
    }

    fn serve_orders(&mut self, signals: &OwnedFd) -> io::Result<End> {
        seqpacket::send(&self.socket, &Hello::of_this_build().encode(), &[], Wait::Forever)?;
        let mut buffer = Region::new(MAX_PACKET)?;
        // An order is taken out of it before init is cloned.
        buffer.keep_from_forks();
        let mut orders = 0;
        let mut quiet = true;
        loop {
            let mut ready =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
            // Refilling the pool is for when there is nothing else to do.
            let patience = if quiet { Timespec::default() } else { QUIET };
            let timeout = self.pool.wants_more().then_some(&patience);
            match poll(&mut ready, timeout) {
                Ok(0) => {
                    quiet = true;
                    self.pool.refill();
                    continue;
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let [order, signal] = ready.map(|ready| !ready.revents().is_empty());
            if signal && (!order || orders >= ORDERS_BEFORE_ENDS) {
                orders = 0;
                if self.handle_signals(signals)? {
                    return Ok(End::Asked);
                }
            }
            if order {
                quiet = false;
                orders += 1;
                match seqpacket::receive(&self.socket, &mut buffer, Wait::Never) {
                    Ok(received) if received.length == 0 => return Ok(End::AgentIsGone),
                    Ok(received) => self.handle(&buffer, received)?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Reports inits that ended. Returns whether to end.
    fn handle_signals(&mut self, signals: &OwnedFd) -> io::Result<bool> {
        let mut asked_to_end = false;
        while let Some(signal) = signals::take(signals) {
            asked_to_end |= signal != libc::SIGCHLD;
        }
        // By their pids, which is faster than to find them among all children.
        self.workshop.crew.collect();
        while let Ok(Some(ended)) = collect_any() {
            self.ended(&ended)?;
        }
        Ok(asked_to_end)
    }

    fn ended(&mut self, ended: &Ended) -> io::Result<()> {
        let Some(index) = self.running.iter().position(|running| running.pid == ended.pid) else {
            return Ok(());
        };
        let Running { number, ids, .. } = self.running.swap_remove(index);
        self.pool.give_back(ids);
        self.answer(&FromLauncher::Ended { number, status: ended.status })
    }

    fn handle(&mut self, buffer: &[u8], mut received: Received) -> io::Result<()> {
        // Agent and launcher are of one release: a packet that cannot be read means that nothing can
        // be relied on any more.
        let launch = Launch::decode(&buffer[..received.length])
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let number = launch.number;
        let answer = match self.launch(&launch, &mut received) {
            Ok((pid, ids)) => FromLauncher::Launched { number, pid, ids },
            Err(failure) => FromLauncher::Failed { number, failure },
        };
        self.answer(&answer)
    }

    fn launch(
        &mut self,
        launch: &Launch,
        received: &mut Received,
    ) -> Result<(u32, IdRange), sandboxd_linux::protocol::Failure> {
        if self.running.iter().any(|running| running.number == launch.number) {
            let taken = io::Error::from_raw_os_error(libc::EEXIST);
            return Err(failure(Step::Other, &taken, "number"));
        }
        let birthplace = self.pool.take(self.workshop.knows_layers(launch))?;
        let ids = birthplace.ids();
        let launched = self.workshop.launch(launch, &mut received.descriptors, &birthplace);
        let pid = launched.inspect_err(|_| self.pool.give_back(ids))?;
        self.running.push(Running { pid, number: launch.number, ids });
        Ok((pid, ids))
    }

    fn answer(&self, answer: &FromLauncher) -> io::Result<()> {
        // The agent always reads: waiting for it is waiting for it to come to us.
        seqpacket::send(&self.socket, &answer.encode(), &[], Wait::Forever)
    }

    fn end_all(&mut self, cgroups: &[PathBuf]) {
        for running in &self.running {
            end(running.pid);
        }
        // Processes that an agent has frozen for a grader, and then died, cannot end before they are
        // thawed (v1), and init not before them.
        cgroups.iter().for_each(|tree| cgroup::thaw_tree(tree));
        while !self.running.is_empty() {
            // An init is collected when all of its namespace is gone.
            let Ok(ended) = sandboxd_linux::process::collect_next() else { return };
            self.running.retain(|running| running.pid != ended.pid);
        }
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// When memory runs out, everything in sandboxes goes before the agent.
fn lower_chances() -> io::Result<Scores> {
    const FILE: &str = "/proc/self/oom_score_adj";
    let agent = fs::read_to_string(FILE)?;
    let scores = Scores::above(agent.trim().parse().unwrap_or(0));
    fs::write(FILE, scores.init.to_string())?;
    Ok(scores)
}
