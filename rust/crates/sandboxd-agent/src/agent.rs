//! The agent: everything that calls act on, and how it begins and ends.

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandboxd_linux::cgroup::Cgroups;
use sandboxd_linux::launcher::{IdSlots, LauncherConfig};
use sandboxd_proto::{CallError, ErrorCode};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::call::Answer;
use crate::capabilities::Capabilities;
use crate::counters::Counters;
use crate::exec::Space;
use crate::launcher::{LaunchError, Launcher};
use crate::lock::lock;
use crate::sandboxes::{Cpus, Sandbox, SandboxTable, keep, watch_deadlines};
use crate::state::StateFolder;
use crate::templates::Templates;

/// Sandboxes that an agent can have at once, and so the ranges of ids that it hands out.
const MAX_SANDBOXES: u32 = 4_096;

/// Host ids of the first agent's sandboxes: above what systemd and container engines hand out by
/// default (up to 2²⁴ and some), as an agent's ids are no one else's.
const FIRST_ID: u32 = 1 << 28;

/// Blocks of ids for agents on one machine, of [`MAX_SANDBOXES`] × 65,536 ids each. As many as fit
/// below 2³²; two agents share one only if more run than that, or their pids fall together.
const ID_BLOCKS: u32 = 14;

/// Pairs of user and network namespaces that the launcher keeps ready.
const NAMESPACE_POOL: u32 = 32;

/// Sandboxes that are made at the same time, for each CPU. More would only be in each other's way, and
/// hold descriptors that those that stand may need; fewer would leave the machine idle.
const LAUNCHES_PER_CPU: usize = 16;

/// How long the end of all sandboxes may take.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// What an agent is started with.
#[derive(Debug)]
pub(crate) struct AgentConfig {
    pub(crate) state: StateFolder,
    pub(crate) templates: Templates,
    pub(crate) capabilities: Capabilities,
    /// The agent's own trees, in which sandboxes get theirs.
    pub(crate) cgroups: Cgroups,
    /// The `sandboxd-init` binary.
    pub(crate) init: PathBuf,
}

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("cannot start the launcher {}", program.display())]
    Launcher { program: PathBuf, source: LaunchError },
}

/// A running agent. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    host: Arc<Host>,
    deadlines: UnboundedSender<Arc<Sandbox>>,
}

/// What sandboxes are made with and listed in.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) launcher: Launcher,
    /// One permit for each sandbox that may be made at the same time.
    pub(crate) launches: Semaphore,
    pub(crate) cgroups: Cgroups,
    pub(crate) templates: Templates,
    pub(crate) capabilities: Capabilities,
    pub(crate) cpus: Cpus,
    pub(crate) space: Arc<Space>,
    pub(crate) table: Mutex<SandboxTable<Arc<Sandbox>>>,
    pub(crate) next_number: AtomicU32,
    pub(crate) counters: Arc<Counters>,
    /// `None` once the agent ends: no sandbox begins then.
    keepers: Mutex<Option<Keepers>>,
}

/// Counts the tasks that keep sandboxes: each holds a receiver.
type Keepers = watch::Sender<()>;

impl Agent {
    /// Starts the launcher and what else runs beside calls. Needs a runtime around it.
    ///
    /// # Errors
    ///
    /// If the launcher cannot be started.
    pub(crate) async fn start(config: AgentConfig) -> Result<Self, StartError> {
        let AgentConfig { state, templates, capabilities, cgroups, init } = config;
        let launcher = LauncherConfig {
            program: init.clone(),
            ids: id_slots(capabilities.id_count()),
            pool: NAMESPACE_POOL,
            cgroups: cgroups.trees(),
            state: Some(state.own().to_owned()),
        };
        let launcher = Launcher::start(launcher)
            .await
            .map_err(|source| StartError::Launcher { program: init, source })?;
        let cpus = Cpus::of_this_process();
        let host = Arc::new(Host {
            launcher,
            launches: Semaphore::new(cpus.seen(None) * LAUNCHES_PER_CPU),
            cgroups,
            templates,
            capabilities,
            cpus,
            space: Space::new(state.own()),
            table: Mutex::new(SandboxTable::new(MAX_SANDBOXES as usize)),
            next_number: AtomicU32::new(0),
            counters: Arc::default(),
            keepers: Mutex::new(Some(watch::Sender::new(()))),
        });
        let (deadlines, arrivals) = unbounded_channel();
        tokio::spawn(watch_deadlines(Arc::clone(&host), arrivals));
        Ok(Self { host, deadlines })
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Begins a sandbox that was entered into the table.
    ///
    /// # Errors
    ///
    /// If the agent ends.
    pub(crate) fn begin(&self, sandbox: &Arc<Sandbox>) -> Answer<()> {
        self.host.keep(keep(Arc::clone(sandbox), Arc::clone(&self.host)))
    }

    /// Has the clocks of a sandbox watched, which was claimed.
    pub(crate) fn start_clocks(&self, sandbox: &Arc<Sandbox>) {
        // The other end lives as long as this agent does.
        let _ = self.deadlines.send(Arc::clone(sandbox));
    }

    /// Ends every sandbox, the launcher, and removes all cgroups. Calls under way end with an error.
    pub(crate) async fn shut_down(&self) {
        let keepers = lock(&self.host.keepers).take();
        let sandboxes: Vec<_> = {
            let table = lock(&self.host.table);
            table.live().chain(table.unclaimed()).map(Arc::clone).collect()
        };
        for sandbox in sandboxes {
            sandbox.end(sandbox.lost_error("agent_ended"));
        }
        if let Some(keepers) = keepers
            && tokio::time::timeout(END_TIMEOUT, keepers.closed()).await.is_err()
        {
            tracing::error!("some sandboxes do not end: the launcher ends them");
        }
        // The launcher removes the groups at its end: none of them may be this process's own.
        self.host.cgroups.leave();
        self.host.launcher.shut_down().await;
        if let Err(error) = self.host.cgroups.remove() {
            tracing::error!(%error, "cgroups are left behind");
        }
    }
}

impl Host {
    /// Spawns a task that keeps a sandbox, or what is beside one: the agent does not end before it.
    ///
    /// # Errors
    ///
    /// If the agent ends.
    pub(crate) fn keep(&self, task: impl Future<Output = ()> + Send + 'static) -> Answer<()> {
        let Some(keeper) = lock(&self.keepers).as_ref().map(watch::Sender::subscribe) else {
            return Err(CallError::new(ErrorCode::AgentUnreachable, "agent is ending"));
        };
        tokio::spawn(async move {
            task.await;
            drop(keeper);
        });
        Ok(())
    }
}

fn id_slots(count: u32) -> IdSlots {
    let block = std::process::id() % ID_BLOCKS;
    IdSlots { first: FIRST_ID + block * (MAX_SANDBOXES << 16), count, slots: MAX_SANDBOXES }
}

#[cfg(test)]
mod tests;
