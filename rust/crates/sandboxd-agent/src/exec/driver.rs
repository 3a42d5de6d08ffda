//! The one who reads the pipes of an exec, enforces its limits and decides its end.
//!
//! An exec ends in one of two ways. It exits: init's report arrives, what the pipes hold at that
//! moment is taken, and background children live on. Or it is ended, by timeout, cancel or limit:
//! everything in its leaf is killed, and then the same.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use sandboxd_linux::protocol::ToInit;
use sandboxd_proto::v1;
use tokio::io::unix::AsyncFd;
use tokio::time::Sleep;

use super::cause::EndedBy;
use super::clocks::Clocks;
use super::entry::{Exec, ExecState, Exited, Report};
use super::finish::{self, Measured, Operands};
use super::grace::Grace;
use super::output::{Output, STDOUT};
use super::stdin::Stdin;
use super::terminal::{self, Terminal};
use super::window::{Garbage, Move};
use crate::lock::lock;
use crate::sandboxes::{Baseline, Enclosure, Sandbox, Unbound};
use crate::watch;

/// Bytes asked of a pipe at once: what it usually holds.
const READ_SIZE: usize = 64 * 1024;

/// What a pipe holds that was found full. More would let a program that is held back run on further.
const WIDE: usize = 256 * 1024;

/// Bytes asked of a control socket at once.
const REPLY_SIZE: usize = 4 * 1024;

/// Reads of one pipe before others get their turn.
const READS_PER_TURN: usize = 16;

/// How long killed processes may take to be gone: they have to give their memory back. Longer only
/// in an uninterruptible wait, and then the sandbox is given up.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// When init is asked to end whoever traces a killed main process, and again after that: long after
/// every ordinary end.
const TRACER_LOOK: Duration = Duration::from_millis(100);

/// When what is left of a killed exec is let go first: an ordinary end has come by then, unless many
/// others want a processor.
const HASTE_LOOK: Duration = Duration::from_millis(20);

/// How often a killed leaf is looked at until it is empty.
const LEAF_LOOK: Duration = Duration::from_micros(500);

/// How often a program that is held back is looked at.
const ROOM_LOOK: Duration = Duration::from_millis(250);

/// Why a sandbox is given up in which SIGKILL has no effect in time.
const UNKILLABLE: &str = "unkillable_process";

/// SIGKILL.
const KILL: i32 = 9;

/// What an exec was started with.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) enclosure: Arc<Enclosure>,
    pub(crate) exec: Arc<Exec>,
    /// Our ends of the pipes; `None` after their end.
    pub(crate) outputs: [Option<AsyncFd<OwnedFd>>; 2],
    pub(crate) stdin: Option<StdinPipe>,
    /// Whether standard input and output are a terminal.
    pub(crate) terminal: bool,
    /// The way to the control socket, if there is one.
    pub(crate) control: Option<StdinPipe>,
    pub(crate) reply: Reply,
    pub(crate) started: Instant,
    pub(crate) clocks: Clocks,
    pub(crate) output_limit: Option<u64>,
    /// What was known of the sandbox when it started.
    pub(crate) before: Baseline,
    /// How many execs the sandbox had started before it.
    pub(crate) earlier_starts: u64,
    pub(crate) operands: Operands,
    pub(crate) flow: [Flow; 2],
}

/// What is known of a stream that comes without a pause.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// The last read took all that a pipe usually holds.
    is_full: bool,
    /// The pipe was made larger, or cannot be.
    is_wide: bool,
    grace: Grace,
    /// Until when the program waits for its reader.
    waits_until: Option<Instant>,
}

/// What came from the control socket and waits for the output that was written before it.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    data: Vec<u8>,
    /// Up to where standard output must be taken first.
    behind: u64,
}

/// Our end of a standard input.
#[derive(Debug)]
pub(crate) enum StdinPipe {
    /// Has always had room so far.
    Unwatched(OwnedFd),
    Watched(AsyncFd<OwnedFd>),
}

/// Why the driver stops waiting.
enum Event {
    Report(Report),
    Lost,
    End(EndedBy),
    /// It is time to look whether it has ended.
    Look,
}

impl Driver {
    /// Drives the exec to its end. What takes time and nobody waits for is left to a task.
    pub(crate) async fn run(mut self) {
        let (event, ended_by) = match self.next_event(None).await {
            Event::End(ended_by) => (self.end().await, Some(ended_by)),
            other => (other, None),
        };
        let mut killed = ended_by.is_some();
        match event {
            Event::Report(Report::Exited(exited)) => {
                self.drain();
                let mut end = self.measure(exited, ended_by);
                // A limit that was met ends an exec as a deadline does: what it left running would
                // only meet the limit again, and keep the next command from starting.
                if finish::is_limit(&end) && !killed {
                    killed = true;
                    let _unbound = self.enclosure.unbind_cpu();
                    self.kill();
                    if !self.wait_until_empty().await {
                        self.sandbox.give_up(UNKILLABLE);
                    }
                    finish::add_killed(&self.exec, &mut end);
                    // It may have met the limit again until then.
                    self.enclosure.settle_hits();
                }
                finish::conclude(&self.sandbox, &self.exec, Ok(end));
            }
            Event::Report(Report::NeverRan(failure)) => {
                finish::never_ran(&self.sandbox, &self.exec, &failure, &self.operands);
            }
            _ => finish::lost(&self.sandbox, &self.exec),
        }
        tokio::spawn(self.clean_up(killed));
    }

    /// Kills everything and waits until it is gone.
    async fn end(&mut self) -> Event {
        // Those that die need a processor, and so does init, which has to tell of it: with a small
        // share, thousands would take minutes.
        let unbound = self.enclosure.unbind_cpu();
        self.kill();
        let until = Instant::now() + KILL_PATIENCE;
        let mut pause = HASTE_LOOK;
        let event = loop {
            let look = Box::pin(tokio::time::sleep(pause));
            match self.next_event(Some(look)).await {
                Event::Look if Instant::now() < until => {
                    self.hasten();
                    unbound.iter().for_each(Unbound::insist);
                    if pause == TRACER_LOOK {
                        self.signal_all(KILL);
                    }
                    pause = TRACER_LOOK;
                }
                event => break event,
            }
        };
        match event {
            Event::Report(_) if self.wait_until_empty().await => event,
            Event::Lost => event,
            _ => {
                self.sandbox.give_up(UNKILLABLE);
                Event::Lost
            }
        }
    }

    fn kill(&self) {
        let mut state = lock(&self.exec.state);
        match &mut state.leaf {
            Some(leaf) => {
                if let Err(error) = leaf.kill() {
                    tracing::warn!(sandbox_id = %self.sandbox.id, %error, "cannot kill a leaf");
                }
            }
            None => self.signal_all(KILL),
        }
    }

    fn hasten(&self) {
        if let Some(leaf) = &lock(&self.exec.state).leaf {
            leaf.hasten();
        }
    }

    fn signal_all(&self, signal: i32) {
        let order = ToInit::SignalAll { exec: self.exec.number, signal };
        // An init that is gone has taken everything with it.
        let _ = self.enclosure.init.send(&order.encode(), &[]);
    }

    /// Waits until no process of a killed exec is left.
    async fn wait_until_empty(&self) -> bool {
        let begun = Instant::now();
        let deadline = begun + KILL_PATIENCE;
        let mut haste = begun + HASTE_LOOK;
        loop {
            // A leaf that cannot be read is gone, and so are the processes in it.
            let populated = lock(&self.exec.state)
                .leaf
                .as_ref()
                .is_some_and(|leaf| leaf.is_populated().unwrap_or(false));
            if !populated {
                return true;
            }
            let now = Instant::now();
            if now >= deadline {
                return false;
            }
            if now >= haste {
                self.hasten();
                haste = now + TRACER_LOOK;
            }
            tokio::time::sleep(LEAF_LOOK).await;
        }
    }

    /// Moves bytes until something happens. With a `look` it runs only to be killed, and no limit
    /// counts any more.
    async fn next_event(&mut self, look: Option<Pin<Box<Sleep>>>) -> Event {
        let mut look = look;
        let limited = look.is_none();
        let mut look_again: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|context| {
            let exec = Arc::clone(&self.exec);
            let mut state = lock(&exec.state);
            if !state.driver.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                state.driver = Some(context.waker().clone());
            }
            if let Some(report) = state.report.take() {
                return Poll::Ready(Event::Report(report));
            }
            if state.lost.is_some() {
                return Poll::Ready(Event::Lost);
            }
            if state.canceled && limited {
                return Poll::Ready(Event::End(EndedBy::Cancel));
            }
            let mut news = false;
            state.held_back = false;
            self.flow.iter_mut().for_each(|flow| flow.waits_until = None);
            news |= self.read(&mut state, STDOUT, context);
            if self.control.is_some() {
                news |= self.read_reply(&mut state, context);
            } else {
                news |= self.read(&mut state, 1 - STDOUT, context);
            }
            if news {
                state.readers.wake();
                self.clocks.heard();
            }
            if let Some(limit) = self.output_limit.filter(|_| limited) {
                let (stdout, stderr) = state.totals();
                if stdout + stderr > limit {
                    return Poll::Ready(Event::End(EndedBy::OutputLimit(limit)));
                }
            }
            self.write_stdin(&mut state, context);
            if state.held_back {
                // A reader that comes or moves on wakes the driver. That others give room back, or
                // that the disk works again, nobody tells it.
                let waits = self.flow.iter().filter_map(|flow| flow.waits_until).min();
                let until = waits.map_or(ROOM_LOOK, |until| {
                    ROOM_LOOK.min(until.saturating_duration_since(Instant::now()))
                });
                let timer = look_again.insert(Box::pin(tokio::time::sleep(until)));
                if timer.as_mut().poll(context).is_ready() {
                    context.waker().wake_by_ref();
                }
            }
            match &mut look {
                Some(look) => look.as_mut().poll(context).map(|()| Event::Look),
                None => {
                    self.clocks.stood_still(|| self.enclosure.still_until());
                    self.clocks.poll(&*state, context).map(Event::End)
                }
            }
        })
        .await
    }

    /// Reads what a pipe has. Returns whether there was anything.
    fn read(&mut self, state: &mut ExecState, stream: usize, context: &mut Context<'_>) -> bool {
        let mut news = false;
        for _ in 0..READS_PER_TURN {
            let Some(pipe) = &self.outputs[stream] else { return news };
            let Poll::Ready(Ok(mut ready)) = pipe.poll_read_ready(context) else { return news };
            let room = room(&self.exec, &mut self.flow[stream], state, stream);
            if room == 0 {
                state.held_back = true;
                return news;
            }
            if room >= READ_SIZE
                && let Some(count) = self.flow[stream].read(pipe, &mut state.outputs[stream])
            {
                if count < READ_SIZE {
                    ready.clear_ready();
                }
                news = true;
                continue;
            }
            let mut buffer = [MaybeUninit::uninit(); READ_SIZE];
            let size = room.min(READ_SIZE);
            match rustix::io::read(pipe, &mut buffer[..size]) {
                Ok(([], _)) => self.outputs[stream] = None,
                Ok((data, _)) => {
                    if data.len() == READ_SIZE {
                        self.flow[stream].found_full(pipe, &state.outputs[stream]);
                    }
                    // A short read has emptied a pipe; a terminal gives little at once.
                    if data.len() < size && !self.terminal {
                        ready.clear_ready();
                    }
                    state.outputs[stream].push(data);
                    news = true;
                }
                Err(Errno::WOULDBLOCK) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                // How a terminal says that nobody has its other side any more.
                Err(Errno::IO) if self.terminal => self.outputs[stream] = None,
                Err(error) => {
                    tracing::warn!(%error, "cannot read a pipe");
                    self.outputs[stream] = None;
                }
            }
        }
        context.waker().wake_by_ref();
        news
    }

    /// Reads what the control socket has, and makes it known when all output that was written before
    /// it is. Returns whether anything is.
    fn read_reply(&mut self, state: &mut ExecState, context: &mut Context<'_>) -> bool {
        while self.reply.data.is_empty() {
            let Some(socket) = &self.outputs[1 - STDOUT] else { return false };
            let room = room(&self.exec, &mut self.flow[1 - STDOUT], state, 1 - STDOUT);
            if room == 0 {
                state.held_back = true;
                return false;
            }
            let Poll::Ready(Ok(mut ready)) = socket.poll_read_ready(context) else { return false };
            let mut buffer = [MaybeUninit::uninit(); REPLY_SIZE];
            match rustix::io::read(socket, &mut buffer[..room.min(REPLY_SIZE)]) {
                Ok(([], _)) => self.outputs[1 - STDOUT] = None,
                Ok((data, _)) => {
                    self.reply.data.extend_from_slice(data);
                    self.reply.behind = state.outputs[STDOUT].total() + self.unread();
                }
                Err(Errno::WOULDBLOCK) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(_) => self.outputs[1 - STDOUT] = None,
            }
        }
        if !self.take_output(state) {
            return false;
        }
        state.outputs[1 - STDOUT].push(&self.reply.data);
        self.reply.data.clear();
        // There may be more.
        context.waker().wake_by_ref();
        true
    }

    /// The most that standard output can hold now.
    fn unread(&self) -> u64 {
        let Some(pipe) = &self.outputs[STDOUT] else { return 0 };
        if self.terminal {
            // What is on its way inside the kernel is not counted, and all of it is less than this.
            return READ_SIZE as u64;
        }
        rustix::io::ioctl_fionread(pipe).unwrap_or(0)
    }

    /// Takes standard output up to where the reply is, without asking the runtime, which may not have heard
    /// of it yet. Returns whether there is no more of it.
    fn take_output(&mut self, state: &mut ExecState) -> bool {
        while state.outputs[STDOUT].total() < self.reply.behind {
            let Some(pipe) = &self.outputs[STDOUT] else { return true };
            let room = room(&self.exec, &mut self.flow[STDOUT], state, STDOUT);
            if room == 0 {
                state.held_back = true;
                return false;
            }
            let mut buffer = [MaybeUninit::uninit(); READ_SIZE];
            match rustix::io::read(pipe, &mut buffer[..room.min(READ_SIZE)]) {
                Ok(([], _)) => self.outputs[STDOUT] = None,
                Ok((data, _)) => state.outputs[STDOUT].push(data),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return true,
                Err(_) => self.outputs[STDOUT] = None,
            }
        }
        true
    }

    /// Writes what standard input and control socket take.
    fn write_stdin(&mut self, state: &mut ExecState, context: &mut Context<'_>) {
        let mut moved = false;
        let ExecState { stdin, control, terminal, .. } = state;
        if let Some(stdin) = stdin {
            moved |= feed(stdin, &mut self.stdin, context, |stdin| {
                if let Terminal::Open(terminal) = terminal {
                    stdin.type_end(|in_line| terminal::end_of_file(terminal, in_line));
                }
            });
        }
        if let Some(control) = control {
            moved |= feed(control, &mut self.control, context, |_| ());
        }
        if moved {
            self.exec.changed.notify_waiters();
        }
    }

    /// Takes what the pipes hold at the end, and no more: a background child may go on writing.
    fn drain(&mut self) {
        let mut state = lock(&self.exec.state);
        for (stream, pipe) in self.outputs.iter().enumerate() {
            if stream != STDOUT {
                state.outputs[stream].push(&self.reply.data);
                self.reply.data.clear();
            }
            let Some(pipe) = pipe else { continue };
            let mut left = READ_SIZE;
            let mut whole_pipe = false;
            loop {
                let mut buffer = [MaybeUninit::uninit(); READ_SIZE];
                let size = left.min(READ_SIZE);
                match rustix::io::read(pipe, &mut buffer[..size]) {
                    Ok(([], _)) => break,
                    Ok((data, _)) => {
                        // Kept whatever a window's limit says: it is no more than a pipe.
                        state.outputs[stream].push(data);
                        left -= data.len();
                    }
                    Err(Errno::INTR) => {}
                    Err(_) => break,
                }
                if left == 0 && !whole_pipe {
                    // The program may have enlarged the pipe.
                    let size = rustix::pipe::fcntl_getpipe_size(pipe).unwrap_or(READ_SIZE);
                    left = size.saturating_sub(READ_SIZE);
                    whole_pipe = true;
                }
                if left == 0 {
                    break;
                }
            }
        }
    }

    fn measure(&self, exited: Exited, ended_by: Option<EndedBy>) -> v1::ExecEnd {
        let measured = Measured {
            ended_by,
            duration: self.started.elapsed(),
            cpu_limit: self.clocks.cpu_limit(),
            before: self.before,
            earlier_starts: self.earlier_starts,
            shell_line: self.operands.is_shell_line(),
        };
        finish::measure(&self.sandbox, &self.enclosure, &self.exec, exited, &measured)
    }

    /// Gives everything back, after the reply.
    async fn clean_up(self, killed: bool) {
        tokio::task::yield_now().await;
        let leaf = lock(&self.exec.state).leaf.take();
        if let Some(leaf) = leaf {
            self.enclosure.leaves.give_back(leaf, killed);
        }
    }
}

/// How much can be read of a stream now, once all is done to make room.
fn room(exec: &Arc<Exec>, flow: &mut Flow, state: &mut ExecState, stream: usize) -> usize {
    let ExecState { outputs, readers, .. } = state;
    let progress = || readers.progress(stream, Instant::now());
    let wanted = outputs[stream].wanted();
    flow.waits_until =
        wanted.and_then(|wanted| flow.grace.wait(readers.ahead(stream), wanted, Instant::now()));
    if flow.waits_until.is_none() {
        let relief = outputs[stream].relieve(progress, &exec.spill, Instant::now);
        if let Some(bytes) = relief.write {
            move_to_disk(Arc::clone(exec), stream, bytes);
        }
        if let Some(garbage) = relief.punch {
            give_disk_back(Arc::clone(exec), stream, garbage);
        }
    }
    outputs[stream].room(progress)
}

impl Flow {
    /// Reads once, without a copy of ours, while each read takes all that a pipe usually holds.
    /// Returns how much; `None` for what is met again by a read of the usual kind.
    fn read(&mut self, pipe: &AsyncFd<OwnedFd>, output: &mut Output) -> Option<usize> {
        if !self.is_full {
            return None;
        }
        let count = rustix::io::read(pipe, spare_capacity(output.space()?)).unwrap_or(0);
        self.is_full = count == READ_SIZE;
        if count == 0 {
            return None;
        }
        output.filled(count);
        Some(count)
    }

    /// Takes note of a pipe that was full: a larger one saves the program from waiting for each
    /// read, and costs memory. Only of `Start`: the output of `Run` has no reader meanwhile.
    fn found_full(&mut self, pipe: &AsyncFd<OwnedFd>, output: &Output) {
        self.is_full = output.is_window();
        if self.is_full && !self.is_wide {
            self.is_wide = true;
            // Beyond what a user may have of them it stays as it is.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, WIDE);
        }
    }
}

/// Writes what `pipe` takes of `stdin`; at its end, also what `end` puts there. Returns whether anything
/// was written.
fn feed(
    stdin: &mut Stdin,
    pipe: &mut Option<StdinPipe>,
    context: &mut Context<'_>,
    mut end: impl FnMut(&mut Stdin),
) -> bool {
    let mut moved = false;
    while let Some(open) = pipe {
        if stdin.is_finished() {
            end(stdin);
            if stdin.is_finished() {
                *pipe = None;
                break;
            }
        }
        if stdin.next().is_empty() {
            break;
        }
        match open.write(stdin.next(), context) {
            Poll::Ready(Ok(count)) => {
                stdin.advance(count);
                moved = true;
            }
            Poll::Ready(Err(_)) => {
                // The program reads no more, which is its own business.
                stdin.close();
                moved = true;
            }
            Poll::Pending => break,
        }
    }
    moved
}

/// Writes bytes of a window to disk, and tells the window.
fn move_to_disk(exec: Arc<Exec>, stream: usize, bytes: Move) {
    tokio::spawn(async move {
        let count: usize = bytes.chunks.iter().map(Bytes::len).sum();
        let spill = Arc::clone(&exec.spill);
        let write = move || spill.write(stream, bytes.offset, &bytes.chunks);
        let written = tokio::task::spawn_blocking(write).await.map_err(io::Error::other);
        let written = written.and_then(|result| result);
        if let Err(error) = &written {
            exec.spill.release(count as u64);
            tracing::warn!(%error, "cannot write output to disk: its program may have to wait");
        }
        let mut state = lock(&exec.state);
        state.outputs[stream].moved(written.is_ok(), Instant::now());
        if state.held_back {
            state.wake_driver();
        }
    });
}

/// Gives back disk that a window needs no more.
fn give_disk_back(exec: Arc<Exec>, stream: usize, garbage: Garbage) {
    tokio::task::spawn_blocking(move || {
        let Garbage { range, bytes } = garbage;
        // Where there are no holes in files, it comes back when the exec is forgotten.
        if exec.spill.punch(stream, range.start, range.end).is_ok() {
            exec.spill.release(bytes);
        }
    });
}

impl StdinPipe {
    fn write(&mut self, data: &[u8], context: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        loop {
            match self {
                Self::Unwatched(pipe) => match rustix::io::write(&*pipe, data) {
                    Err(Errno::WOULDBLOCK) => {
                        let pipe = pipe.try_clone().and_then(watch::writable)?;
                        *self = Self::Watched(pipe);
                    }
                    Err(Errno::INTR) => {}
                    other => return Poll::Ready(Ok(other?)),
                },
                Self::Watched(pipe) => {
                    let mut ready = ready!(pipe.poll_write_ready(context))?;
                    match rustix::io::write(&*pipe, data) {
                        Err(Errno::WOULDBLOCK) => ready.clear_ready(),
                        Err(Errno::INTR) => {}
                        other => return Poll::Ready(Ok(other?)),
                    }
                }
            }
        }
    }
}
