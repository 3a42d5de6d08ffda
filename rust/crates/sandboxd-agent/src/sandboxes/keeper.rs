//! The keeper of one sandbox: makes it, hears its init, and clears away what is left of it.
//!
//! One task per sandbox, from the claim until its cgroups are removed. Nothing that it made can be
//! forgotten: whatever step fails, the same end follows.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandboxd_linux::cgroup::{self, SandboxCgroup};
use sandboxd_linux::protocol::{Failure, FromInit, FromLauncher, IdRange, Launch, Step};
use sandboxd_linux::{pidfd, seqpacket};
use sandboxd_proto::{CallError, ErrorCode};
use tokio::sync::mpsc::UnboundedReceiver;

use super::enclosure::Enclosure;
use super::limits::cpu_count;
use super::sandbox::Sandbox;
use super::table::Epitaph;
use crate::agent::Host;
use crate::exec::{Exited, LeafPool, Report, has_leaves};
use crate::lock::lock;
use crate::packets::PacketSocket;

/// From the order to init's first word. Thousands of times what it takes on an idle machine.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(30);

/// From SIGKILL to the launcher's report. The kernel first gives all memory back.
const END_TIMEOUT: Duration = Duration::from_secs(30);

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
    let mut kept = Kept::new(Arc::clone(&sandbox), Arc::clone(&host));
    let error = match kept.launch() {
        Ok(()) => kept.watch().await,
        Err(error) => error,
    };
    sandbox.end(error);
    bury(&sandbox, &host);
    kept.kill().await;
    sandbox.set_gone();
    kept.remove_groups().await;
}

/// Turns the sandbox into its epitaph in the table.
fn bury(sandbox: &Sandbox, host: &Host) {
    let Some(error) = sandbox.ended_with() else { return };
    tracing::info!(sandbox_id = %sandbox.id, %error, "sandbox ended");
    let epitaph = Epitaph { error, summary: sandbox.summary() };
    lock(&host.table).end(&sandbox.id, epitaph, Instant::now());
}

/// What has been made of a sandbox so far.
struct Kept {
    sandbox: Arc<Sandbox>,
    host: Arc<Host>,
    cgroup: Option<Arc<SandboxCgroup>>,
    init: Option<Arc<PacketSocket>>,
    /// `None` before the order and after the last answer to it.
    launcher: Option<UnboundedReceiver<FromLauncher>>,
    launched: Option<(u32, IdRange)>,
    process: Option<OwnedFd>,
    root: Option<OwnedFd>,
    leaves: LeafPool,
}

impl Kept {
    fn new(sandbox: Arc<Sandbox>, host: Arc<Host>) -> Self {
        Self {
            sandbox,
            host,
            cgroup: None,
            init: None,
            launcher: None,
            launched: None,
            process: None,
            root: None,
            leaves: LeafPool::default(),
        }
    }

    /// Makes the groups and the socket, and sends the order.
    fn launch(&mut self) -> Result<(), CallError> {
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
        let order = Launch {
            number: self.sandbox.number,
            hardened: spec.template.hardened,
            root,
            mount_point: MOUNT_POINT.into(),
            disk_bytes: spec.limits.disk_bytes.unwrap_or(UNLIMITED_DISK),
            cpus: share.map_or_else(Vec::new, |count| self.host.cpus.take(count)),
            hostname: (&*self.sandbox.id).into(),
            cgroup_tasks: u32::try_from(join.tasks.len()).unwrap_or(u32::MAX),
            cgroup_directory: join.directory.is_some(),
        };
        let mut descriptors: Vec<BorrowedFd<'_>> = vec![theirs.as_fd()];
        descriptors.extend(join.tasks.iter().chain(&join.directory).map(OwnedFd::as_fd));
        let launcher = self.host.launcher.launch(&order, &descriptors);
        self.launcher = Some(launcher.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => self.sandbox.lost_error("launcher_died"),
            _ => failed("its order", &error),
        })?);
        Ok(())
    }

    /// Makes the sandbox ready and serves it until its end. Returns why it ended.
    async fn watch(&mut self) -> CallError {
        let sandbox = Arc::clone(&self.sandbox);
        let (Some(init), Some(mut launcher)) = (self.init.clone(), self.launcher.take()) else {
            return sandbox.lost_error("never_launched");
        };
        let mut ending = std::pin::pin!(sandbox.ending.notified());
        let mut late = std::pin::pin!(tokio::time::sleep(LAUNCH_TIMEOUT));
        let mut starting = true;
        let mut buffer = vec![0; REPORT_SIZE];
        let error = loop {
            tokio::select! {
                biased;
                packet = init.receive(&mut buffer) => match packet {
                    Ok(received) if received.length > 0 => {
                        let seqpacket::Received { length, mut descriptors } = received;
                        let report = FromInit::decode(&buffer[..length]);
                        if let Err(error) = self.hear(report.ok(), descriptors.take()) {
                            break error;
                        }
                    }
                    // All that is known. The launcher's report follows, and is waited for.
                    Ok(_) | Err(_) => break sandbox.lost_error("init_died"),
                },
                answer = launcher.recv() => match answer {
                    Some(FromLauncher::Launched { pid, ids, .. }) => self.enter(pid, ids),
                    Some(FromLauncher::Failed { failure, .. }) => {
                        return launch_failed(&sandbox, &failure);
                    }
                    Some(FromLauncher::Ended { .. }) => return sandbox.lost_error("init_died"),
                    None => return sandbox.lost_error("launcher_died"),
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
            }
        };
        self.launcher = Some(launcher);
        error
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
    fn hear(&mut self, report: Option<FromInit>, root: Option<OwnedFd>) -> Result<(), CallError> {
        let execs = self.sandbox.execs();
        match report {
            Some(FromInit::Exited { exec, status, cpu_nanos, peak_kib }) => {
                let exited = Exited { status, cpu_nanos, peak_kib };
                execs.set_report(exec, Report::Exited(exited));
            }
            Some(FromInit::Started { exec, pid }) => execs.set_started(exec, pid),
            Some(FromInit::StartFailed { exec, failure }) => {
                execs.set_report(exec, Report::NeverRan(failure));
            }
            Some(FromInit::Ready) => self.root = root,
            Some(FromInit::SetupFailed(failure)) => {
                return Err(launch_failed(&self.sandbox, &failure));
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
        let startup = self.sandbox.claimed.elapsed();
        let enclosure = Enclosure::new(
            Arc::clone(init),
            root,
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
        true
    }

    /// Kills init, and with it everything inside, and waits until the launcher has reaped it.
    async fn kill(&mut self) {
        self.kill_process();
        if let Some(init) = &self.init {
            // Also ends an init whose pid has not been heard of.
            init.shut_down();
        }
        let Some(mut launcher) = self.launcher.take() else { return };
        let ended = async {
            while let Some(answer) = launcher.recv().await {
                if let FromLauncher::Launched { pid, .. } = answer {
                    self.process = pidfd::open(pid).ok();
                    self.kill_process();
                }
            }
        };
        if tokio::time::timeout(END_TIMEOUT, ended).await.is_err() {
            tracing::error!(sandbox_id = %self.sandbox.id, "init does not end");
        }
    }

    fn kill_process(&self) {
        if let Some(process) = &self.process {
            // One that is gone already is what is wanted.
            let _ = pidfd::send_signal(process, KILL);
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

fn launch_failed(sandbox: &Sandbox, failure: &Failure) -> CallError {
    let step = match failure.step {
        Step::Namespaces => "namespaces",
        Step::IdMap => "id_map",
        Step::Cgroup => "cgroup",
        Step::Mount => "mount",
        Step::Network => "network",
        Step::Capabilities => "capabilities",
        Step::Seccomp => "seccomp",
        Step::Fork => "fork",
        Step::Other
        | Step::Table
        | Step::User
        | Step::Directory
        | Step::Program
        | Step::Descriptor => "other",
    };
    let error = io::Error::from_raw_os_error(failure.errno);
    let detail = &failure.detail;
    let message = format!("sandbox {:?} cannot be made: {step}: {detail}: {error}", &*sandbox.id);
    CallError::new(ErrorCode::LaunchFailed, message).with_reason(step)
}
