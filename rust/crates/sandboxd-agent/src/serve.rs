//! `sandboxd-agent serve`: from the command line to the end of every sandbox.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandboxd_linux::cgroup::{Cgroups, Layout, Owner};
use sandboxd_linux::inherit::inherited;
use sandboxd_proto::{CallError, ErrorCode};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::agent::{Agent, AgentConfig, StartError};
use crate::call::Answer;
use crate::cli::Serve;
use crate::doctor;
use crate::launcher::LaunchError;
use crate::server::{self, Listener};
use crate::state::StateFolder;
use crate::templates::Templates;
use crate::watch;

/// Threads for blocking work, which is file calls: each short, or a removal of many files.
const BLOCKING_THREADS: usize = 32;

/// How long such a thread waits for more work.
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Serves until it is told to end. What cannot start says why: to whoever is connected already, in
/// the log, and by its exit status.
pub(crate) fn run(arguments: &Serve) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_KEEP_ALIVE)
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(serve(arguments)),
        Err(error) => Err(internal("cannot start the runtime", &error)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(code = <&str>::from(error.code), "{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: &Serve) -> Answer<()> {
    let inherit = |option: &str, number: Option<RawFd>| -> Answer<Option<OwnedFd>> {
        number.map(inherited).transpose().map_err(|error| {
            let message = format!("{option} names no open descriptor: {error}");
            CallError::new(ErrorCode::InvalidArgument, message)
        })
    };
    let lifeline = inherit("--lifeline-fd", arguments.lifeline_fd)?;
    let early =
        inherit("--listen-fd", arguments.listen_fd)?.map(Listener::inherited).transpose()?;
    let started = match start(arguments).await {
        Ok(started) => started,
        Err(error) => {
            if let Some(listener) = &early {
                server::refuse(listener, &error).await;
            }
            return Err(error);
        }
    };
    let Started { agent, state } = started;
    let result = listen_until_the_end(arguments, &agent, &state, early, lifeline).await;
    agent.shut_down().await;
    state.remove();
    result
}

struct Started {
    agent: Agent,
    state: StateFolder,
}

async fn start(arguments: &Serve) -> Answer<Started> {
    raise_descriptor_limit();
    // For what the agent keeps itself: readable by its sandboxes, writable by nobody else.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let init = init_binary(arguments)?;
    let state = StateFolder::open(&arguments.state.folder())?;
    match start_agent(&state, init).await {
        Ok(agent) => Ok(Started { agent, state }),
        Err(error) => {
            state.remove();
            Err(error)
        }
    }
}

async fn start_agent(state: &StateFolder, init: PathBuf) -> Answer<Agent> {
    state.sweep();
    let layout =
        Layout::of_this_process().map_err(|error| internal("cannot read /proc", &error))?;
    for dead in Cgroups::sweep(&layout) {
        tracing::info!(group = dead.group(), "swept what a dead agent left behind");
    }
    let owner = Owner::current().map_err(|error| internal("cannot read /proc", &error))?;
    let templates = Templates::build(state)?;
    let cgroups = Cgroups::set_up(&layout, &owner);
    cgroups.shelter();
    let capabilities = doctor::probe(&Ok(state.clone()), &cgroups, &layout);
    let config = AgentConfig {
        state: state.clone(),
        templates,
        capabilities,
        cgroups: cgroups.clone(),
        init,
    };
    Agent::start(config).await.map_err(|error| {
        if let Err(error) = cgroups.remove() {
            tracing::error!(%error, "cgroups are left behind");
        }
        let mut message = error.to_string();
        let causes =
            std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        causes.for_each(|cause| message = format!("{message}: {cause}"));
        let StartError::Launcher { source, .. } = error;
        let code = match source {
            LaunchError::OtherBuild { .. } => ErrorCode::VersionMismatch,
            LaunchError::Gone | LaunchError::System(_) => ErrorCode::AgentMissing,
        };
        CallError::new(code, message)
    })
}

/// The init of sandboxes: named, or beside this binary.
fn init_binary(arguments: &Serve) -> Answer<PathBuf> {
    let path = match &arguments.init {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .map_err(|error| internal("cannot find this binary", &error))?
            .with_file_name("sandboxd-init"),
    };
    if path.is_file() {
        return Ok(path);
    }
    let message = format!("{} is missing: name the init of sandboxes with --init", path.display());
    Err(CallError::new(ErrorCode::AgentMissing, message))
}

async fn listen_until_the_end(
    arguments: &Serve,
    agent: &Agent,
    state: &StateFolder,
    early: Option<Listener>,
    lifeline: Option<OwnedFd>,
) -> Answer<()> {
    let listener = match early {
        Some(listener) => listener,
        None => {
            let path = arguments.listen.clone().unwrap_or_else(|| state.default_socket());
            Listener::bind(&path)?
        }
    };
    let mut signals = Signals::new().map_err(|error| internal("cannot handle signals", &error))?;
    tracing::info!(path = ?listener.path(), "listening");
    tokio::select! {
        never = server::serve(agent, &listener) => match never {},
        result = parent_is_gone(lifeline) => result.map_err(|error| internal("lifeline", &error)),
        () = signals.next() => Ok(()),
    }
}

/// What asks the agent to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// Waits until nobody holds the other end of the lifeline; for ever without one.
async fn parent_is_gone(lifeline: Option<OwnedFd>) -> io::Result<()> {
    let Some(lifeline) = lifeline else { return std::future::pending().await };
    rustix::io::ioctl_fionbio(&lifeline, true)?;
    let lifeline = watch::readable(lifeline)?;
    let mut ignored = [0; 64];
    loop {
        let mut ready = lifeline.readable().await?;
        match rustix::io::read(lifeline.get_ref(), &mut ignored) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => ready.clear_ready(),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Every sandbox and every exec takes descriptors: as many as this process may have at all.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(errno) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%errno, "cannot raise the limit of descriptors");
    }
}

fn internal(what: &str, error: &io::Error) -> CallError {
    CallError::new(ErrorCode::Internal, format!("{what}: {error}"))
}
