//! Starting the launcher: the process that makes every sandbox of one agent.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::seqpacket;

/// Host ids that the launcher hands out: `slots` ranges of `count` ids, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdSlots {
    /// First host id of the first range.
    pub first: u32,
    /// Ids of each sandbox: 65,536, or 1 for an agent that may only map its own.
    pub count: u32,
    /// How many ranges there are, which is also how many sandboxes there can be at once. Not
    /// looked at for an ordinary user: then every sandbox has the user's own id.
    pub slots: u32,
}

/// How a launcher is started.
#[derive(Debug, Clone)]
pub struct LauncherConfig {
    /// The `sandboxd-init` binary.
    pub program: PathBuf,
    pub ids: IdSlots,
    /// Pairs of user and network namespaces to keep ready.
    pub pool: u32,
    /// Trees of cgroups ([`crate::cgroup::Cgroups::trees`]) to remove at the end, should the agent
    /// not have come to it.
    pub cgroups: Vec<PathBuf>,
    /// Folder to remove at the end, likewise.
    pub state: Option<PathBuf>,
}

/// A launcher that runs. Closing the socket ends it, and with it every sandbox.
#[derive(Debug)]
pub struct Launcher {
    /// Speaks [`crate::protocol::Launch`] and [`crate::protocol::FromLauncher`]. Close-on-exec.
    pub socket: OwnedFd,
    /// To be waited for by the owner.
    pub process: Child,
}

impl LauncherConfig {
    /// Starts the launcher. It inherits standard error, for panics only, and nothing else.
    ///
    /// # Errors
    ///
    /// If the program cannot be started.
    pub fn start(&self) -> io::Result<Launcher> {
        let (socket, theirs) = seqpacket::pair()?;
        let process = Command::new(&self.program)
            .args(self.arguments())
            .env_clear()
            // The launcher's socket is its standard input: no other descriptor has to be passed
            // on, so the standard library can use its vfork path.
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Launcher { socket, process })
    }

    fn arguments(&self) -> Vec<OsString> {
        let IdSlots { first, count, slots } = self.ids;
        let mut arguments: Vec<OsString> = vec![
            "launcher".into(),
            // One of a build that does not say which it is ends at once, for it does not know this.
            "--hello".into(),
            format!("--ids={first}:{count}:{slots}").into(),
            format!("--pool={}", self.pool).into(),
        ];
        let mut path = |option: &str, path: &PathBuf| {
            let mut argument = OsString::from(option);
            argument.push(path);
            arguments.push(argument);
        };
        self.cgroups.iter().for_each(|tree| path("--cgroup=", tree));
        self.state.iter().for_each(|folder| path("--state=", folder));
        arguments
    }
}
