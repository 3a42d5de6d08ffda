//! The keeper of one sandbox: makes it, hears its init, and clears away what is left of it.
//!
//! One task per sandbox, from the claim until its cgroups are removed. Nothing that it made can be
//! forgotten: whatever step fails, the same end follows.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandboxd_linux::cgroup::{self, SandboxCgroup};
use sandboxd_linux::protocol::{FromInit, FromLauncher, IdRange, Launch};
use sandboxd_linux::{pidfd, seqpacket};
use sandboxd_proto::{CallError, ErrorCode};
use tokio::sync::SemaphorePermit;

use super::enclosure::Enclosure;
use super::failures::{ended_early, launch_failed};
use super::limits::cpu_count;
use super::sandbox::Sandbox;
use super::table::Epitaph;
use crate::agent::Host;
use crate::exec::{Exited, LeafPool, Report, has_leaves};
use crate::graders::View;
use crate::launcher::{LaunchError, Order};
use crate::lock::lock;
use crate::packets::PacketSocket;

/// From the order to init's first word. Thousands of times what it takes on an idle machine.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(30);

/// From SIGKILL to the launcher's report. The kernel first gives all memory back.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the calls of a sandbox that ended wait until nothing of it runs any more. Longer only
/// where the kernel takes its time to give memory back.
const TELL_PATIENCE: Duration = Duration::from_secs(1);

/// How long the cgroups of a sandbox that is gone may stay busy.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Init's longest report: a failure with a path in it.
const REPORT_SIZE: usize = 8 * 1024;

/// Disk of a sandbox without a limit: init wants a number.
const UNLIMITED_DISK: u64 = 1 << 40;

/// Where init builds the root, in its own mount namespace: nothing of it is seen here. A directory
/// that every id can reach, because init has those of its sandbox by then; the state folder is not.
/// And one that no layer lies beneath, as the state folder may in `/tmp`: an ordinary user's init
/// opens the layers by their paths when this is mounted already.
const MOUNT_POINT: &str = "/sys";

const KILL: i32 = 9;

/// Keeps `sandbox` until nothing is left of it.
pub(crate) async fn keep(sandbox: Arc<Sandbox>, host: Arc<Host>) {
    keep_as(sandbox, host, None).await;
}

/// Keeps the box of a grader, which sees `view`, until nothing is left of it.
pub(crate) async fn keep_grader(sandbox: Arc<Sandbox>, host: Arc<Host>, view: View) {
    keep_as(sandbox, host, Some(view)).await;
}

async fn keep_as(sandbox: Arc<Sandbox>, host: Arc<Host>, view: Option<View>) {
    let is_listed = view.is_none();
    let mut kept = Kept::new(Arc::clone(&sandbox), Arc::clone(&host), view);
    let error = match turn(&sandbox, &host).await {
        Some(turn) => kept.make(turn).await,
        None => sandbox.lost_error("unknown"),
    };
    sandbox.end(error);
    if is_listed {
        bury(&sandbox, &host);
    }
    {
        let mut kill = std::pin::pin!(kept.kill());
        if tokio::time::timeout(TELL_PATIENCE, &mut kill).await.is_err() {
            sandbox.tell_its_end();
            kill.await;
        }
    }
    sandbox.tell_its_end();
    sandbox.set_gone();
    kept.remove_groups().await;
}

/// Waits until it may be made: in a burst, those that were claimed first come first. `None` if it was
/// ended meanwhile.
async fn turn<'a>(sandbox: &Sandbox, host: &'a Host) -> Option<SemaphorePermit<'a>> {
    tokio::select! {
        biased;
        () = sandbox.ending.notified() => None,
        turn = host.launches.acquire() => turn.ok(),
    }
}

/// Turns the sandbox into its epitaph in the table.
fn bury(sandbox: &Sandbox, host: &Host) {
    let Some(error) = sandbox.ended_with() else { return };
    tracing::info!(sandbox_id = %sandbox.id, %error, "sandbox ended");
    if error.code == ErrorCode::SandboxLost {
        host.counters.sandboxes_lost.add(1);
    }
    let epitaph = Epitaph { error, summary: Some(sandbox.summary()) };
    lock(&host.table).end(&sandbox.id, epitaph, Instant::now());
}

/// What has been made of a sandbox so far.
struct Kept {
    sandbox: Arc<Sandbox>,
    host: Arc<Host>,
    cgroup: Option<Arc<SandboxCgroup>>,
    init: Option<Arc<PacketSocket>>,
    /// What the launcher was asked for; `None` before that.
    order: Option<Order>,
    /// The launcher has said its last word, or is gone.
    answered: bool,
    launched: Option<(u32, IdRange)>,
    process: Option<OwnedFd>,
    root: Option<OwnedFd>,
    disk: Option<OwnedFd>,
    leaves: LeafPool,
    /// Of a grader.
    view: Option<View>,
}

impl Kept {
    fn new(sandbox: Arc<Sandbox>, host: Arc<Host>, view: Option<View>) -> Self {
        Self {
            sandbox,
            host,
            cgroup: None,
            init: None,
            order: None,
            answered: false,
            launched: None,
            process: None,
            root: None,
            disk: None,
            leaves: LeafPool::default(),
            view,
        }
    }

    /// Makes the sandbox and serves it until its end. Returns why it ended.
    async fn make(&mut self, turn: SemaphorePermit<'_>) -> CallError {
        match self.launch().await {
            Ok(()) => self.watch(turn).await,
            Err(error) => error,
        }
    }

    /// Makes the groups and the socket, and sends the order.
    async fn launch(&mut self) -> Result<(), CallError> {
        let spec = &self.sandbox.spec;
        let limits = cgroup::Limits {
            memory_bytes: spec.limits.memory_bytes,
            pids: spec.limits.pids,
            cpu_millis: spec.limits.cpu_millis,
        };
        let failed = |what: &str, error: &io::Error| {
            let message =
                format!("sandbox {:?} cannot be made: {what}: {error}", &*self.sandbox.id);
            CallError::new(ErrorCode::LaunchFailed, message).with_reason("cgroup")
        };
        let cgroup = self.host.cgroups.create(self.sandbox.number, &limits);
        let cgroup = Arc::new(cgroup.map_err(|error| failed("its cgroups", &error))?);
        self.cgroup = Some(Arc::clone(&cgroup));
        let join = cgroup.join().map_err(|error| failed("its cgroups", &error))?;
        let (ours, theirs) = seqpacket::pair().map_err(|error| failed("its socket", &error))?;
        let init = PacketSocket::new(ours).map_err(|error| failed("its socket", &error))?;
        self.init = Some(init);
        let share = spec.limits.cpu_millis.map(cpu_count);
        let root = self.host.templates.root(&spec.template, self.host.cpus.seen(share))?;
        let root = if self.view.is_some() { View::root(root) } else { root };
        let bases: Vec<_> = self.view.iter().flat_map(View::bases).collect();
        let order = Launch {
            number: self.sandbox.number,
            hardened: spec.template.hardened,
            root,
            mount_point: MOUNT_POINT.into(),
            disk_bytes: spec.limits.disk_bytes.unwrap_or(UNLIMITED_DISK),
            cpus: share.map_or_else(Vec::new, |count| self.host.cpus.take(count)),
            // A fork bomb must not take the machine's processes, even where nothing counts them.
            processes: match spec.limits.pids {
                Some(_) => 0,
                None => spec.template.defaults.pids.unwrap_or_default(),
            },
            hostname: (&*self.sandbox.id).into(),
            cgroup_tasks: u32::try_from(join.tasks.len()).unwrap_or(u32::MAX),
            cgroup_directory: join.directory.is_some(),
            bases: u32::try_from(bases.len()).unwrap_or(u32::MAX),
        };
        let mut descriptors: Vec<BorrowedFd<'_>> = vec![theirs.as_fd()];
        descriptors.extend(join.tasks.iter().chain(&join.directory).map(OwnedFd::as_fd));
        descriptors.extend(bases.into_iter().map(OwnedFd::as_fd));
        let order = self.host.launcher.launch(&order, &descriptors).await;
        self.order = Some(order.map_err(|error| match error {
            LaunchError::Gone => self.sandbox.lost_error("launcher_died"),
            LaunchError::OtherBuild { .. } => {
                CallError::new(ErrorCode::VersionMismatch, error.to_string())
            }
            LaunchError::System(error) => failed("its order", &error),
        })?);
        Ok(())
    }

    /// Makes the sandbox ready, which ends its turn, and serves it until its end. Returns why it ended.
    async fn watch(&mut self, turn: SemaphorePermit<'_>) -> CallError {
        let sandbox = Arc::clone(&self.sandbox);
        let (Some(init), Some(mut order)) = (self.init.clone(), self.order.take()) else {
            return sandbox.lost_error("never_launched");
        };
        let mut ending = std::pin::pin!(sandbox.ending.notified());
        let mut late = std::pin::pin!(tokio::time::sleep(LAUNCH_TIMEOUT));
        let mut turn = Some(turn);
        let mut starting = true;
        // Init has closed its end of the socket.
        let mut silent = false;
        let mut buffer = vec![0; REPORT_SIZE];
        let error = loop {
            tokio::select! {
                biased;
                packet = init.receive(&mut buffer), if !silent => {
                    match self.hear_packet(packet, &buffer) {
                        Some(Ok(())) => {}
                        Some(Err(error)) => break error,
                        // All that is known of one that stood. The launcher's report follows, and
                        // is waited for after the calls in it have ended.
                        None if !starting => break sandbox.lost_error("init_died"),
                        None => silent = true,
                    }
                }
                answer = order.answer() => match answer {
                    Some(FromLauncher::Launched { pid, ids, .. }) => self.enter(pid, ids),
                    Some(FromLauncher::Failed { failure, .. }) => {
                        self.answered = true;
                        break launch_failed(&sandbox.id, &failure);
                    }
                    Some(FromLauncher::Ended { status, .. }) => {
                        self.answered = true;
                        break self.last_words(&init, &mut buffer, starting, status);
                    }
                    None => {
                        self.answered = true;
                        break sandbox.lost_error("launcher_died");
                    }
                },
                () = &mut ending => break sandbox.lost_error("unknown"),
                () = &mut late, if starting => {
                    let seconds = LAUNCH_TIMEOUT.as_secs();
                    let message =
                        format!("sandbox {:?} was not ready within {seconds} s", &*sandbox.id);
                    break CallError::new(ErrorCode::LaunchFailed, message).with_reason("timeout");
                }
            }
            if starting {
                starting = !self.open();
                if !starting {
                    turn = None;
                }
            }
        };
        drop(turn);
        self.order = Some(order);
        error
    }

    /// Acts on what came from init; `None` if that is its end.
    fn hear_packet(
        &mut self,
        packet: io::Result<seqpacket::Received>,
        buffer: &[u8],
    ) -> Option<Result<(), CallError>> {
        let seqpacket::Received { length, mut descriptors } =
            packet.ok().filter(|received| received.length > 0)?;
        let report = FromInit::decode(&buffer[..length]);
        Some(self.hear(report.ok(), [descriptors.take(), descriptors.take()]))
    }

    /// Why an init ended that the launcher has collected. What it said before may not have been read
    /// yet.
    fn last_words(
        &mut self,
        init: &PacketSocket,
        buffer: &mut [u8],
        starting: bool,
        status: i32,
    ) -> CallError {
        while let Some(heard) = self.hear_packet(init.receive_now(buffer), buffer) {
            if let Err(error) = heard {
                return error;
            }
        }
        if starting {
            ended_early(&self.sandbox.id, status)
        } else {
            self.sandbox.lost_error("init_died")
        }
    }

    /// Notes what the launcher made. The first leaf is made while init still sets things up.
    fn enter(&mut self, pid: u32, ids: IdRange) {
        self.launched = Some((pid, ids));
        // The launcher reaps it only after it has died: the pid is still that process.
        self.process = pidfd::open(pid).ok();
        let Some(cgroup) = &self.cgroup else { return };
        if has_leaves(self.host.cgroups.containment())
            && let Ok(leaf) = cgroup.create_leaf(ids.first)
        {
            self.leaves.give_back(leaf, false);
        }
    }

    /// Acts on a report of init.
    fn hear(
        &mut self,
        report: Option<FromInit>,
        [first, second]: [Option<OwnedFd>; 2],
    ) -> Result<(), CallError> {
        let execs = self.sandbox.execs();
        match report {
            Some(FromInit::Exited { exec, status, usage }) => {
                execs.set_report(exec, Report::Exited(Exited { status, usage }));
            }
            Some(FromInit::Started { exec, pid }) => execs.set_started(exec, pid),
            Some(FromInit::StartFailed { exec, failure }) => {
                execs.set_report(exec, Report::NeverRan(failure));
            }
            Some(FromInit::Ready) => (self.root, self.disk) = (first, second),
            Some(FromInit::Synced { number }) => self.sandbox.set_synced(number),
            Some(FromInit::SetupFailed(failure)) => {
                return Err(launch_failed(&self.sandbox.id, &failure));
            }
            None => return Err(self.sandbox.lost_error("init_is_not_itself")),
        }
        Ok(())
    }

    /// Lets calls in once both launcher and init have said their part. Returns whether they have.
    fn open(&mut self) -> bool {
        let (Some((pid, ids)), Some(init), Some(cgroup)) =
            (self.launched, &self.init, &self.cgroup)
        else {
            return false;
        };
        let Some(root) = self.root.take() else { return false };
        let disk = self.disk.take();
        let startup = self.sandbox.claimed.elapsed();
        let enclosure = Enclosure::new(
            Arc::clone(init),
            root,
            disk,
            ids,
            pid,
            startup,
            self.host.cgroups.containment(),
            std::mem::take(&mut self.leaves),
            Arc::clone(cgroup),
            &self.sandbox.spec,
        );
        tracing::info!(sandbox_id = %self.sandbox.id, init_pid = pid, ?startup, "sandbox ready");
        self.sandbox.set_ready(enclosure);
        if self.sandbox.is_waiting() {
            lock(&self.host.table).shelve(&self.sandbox.id);
        }
        true
    }

    /// Kills init, and with it everything inside, and waits until the launcher has reaped it.
    async fn kill(&mut self) {
        kill(self.process.as_ref());
        if let Some(init) = &self.init {
            // Also ends an init whose pid has not been heard of.
            init.shut_down();
        }
        if self.sandbox.is_graded()
            && let Some(cgroup) = &self.cgroup
        {
            // In version 1 what is frozen for a grader dies when it is thawed, and init not before it.
            let _ = cgroup.thaw();
        }
        let Some(order) = self.order.as_mut().filter(|_| !self.answered) else { return };
        let ended = async {
            while let Some(answer) = order.answer().await {
                if let FromLauncher::Launched { pid, .. } = answer {
                    self.process = pidfd::open(pid).ok();
                    kill(self.process.as_ref());
                }
            }
        };
        if tokio::time::timeout(END_TIMEOUT, ended).await.is_err() {
            tracing::error!(sandbox_id = %self.sandbox.id, "init does not end");
        }
    }

    async fn remove_groups(&self) {
        let Some(cgroup) = &self.cgroup else { return };
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        let mut pause = Duration::from_millis(1);
        while let Err(error) = cgroup.remove() {
            if Instant::now() >= deadline {
                tracing::error!(sandbox_id = %self.sandbox.id, %error, "cgroups are left behind");
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}

fn kill(process: Option<&OwnedFd>) {
    if let Some(process) = process {
        // One that is gone already is what is wanted.
        let _ = pidfd::send_signal(process, KILL);
    }
}
