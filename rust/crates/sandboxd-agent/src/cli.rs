//! The command line.

use std::os::fd::RawFd;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Serves the sandboxes of one machine.
#[derive(Debug, Parser)]
#[command(name = "sandboxd-agent", disable_version_flag = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve sandboxes until the parent is gone, or on SIGTERM or SIGINT
    Serve(Serve),
    /// Print name and version
    Version,
    /// Say what this host can enforce, and what would provide the rest
    Doctor(Doctor),
    /// Of the agent's own: tries what changes the process that tries it
    #[command(hide = true)]
    Probe,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Unix socket to listen at [default: STATE/sockets/PID-STARTTIME.sock]
    #[arg(long, value_name = "PATH", conflicts_with = "listen_fd")]
    pub(crate) listen: Option<PathBuf>,
    /// Inherited descriptor of a Unix socket that listens already
    #[arg(long, value_name = "N")]
    pub(crate) listen_fd: Option<RawFd>,
    /// Inherited read end of a pipe: the agent ends when nobody holds its other end any more
    #[arg(long, value_name = "N")]
    pub(crate) lifeline_fd: Option<RawFd>,
    #[command(flatten)]
    pub(crate) state: State,
    /// The init of sandboxes [default: `sandboxd-init` beside this binary]
    #[arg(long, value_name = "PATH")]
    pub(crate) init: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON: a list of objects with name, available and detail
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) state: State,
}

#[derive(Debug, Args)]
pub(crate) struct State {
    /// Folder for what agents keep on disk, of this user alone [env: SANDBOXD_AGENT_STATE]
    #[arg(long = "state", value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl State {
    /// The folder asked for: by option, by environment, or the default of this user.
    pub(crate) fn folder(&self) -> PathBuf {
        let user = rustix::process::geteuid();
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        choose(
            self.folder.clone(),
            variable("SANDBOXD_AGENT_STATE").map(Into::into),
            variable("XDG_RUNTIME_DIR").map(Into::into),
            user.as_raw(),
        )
    }
}

fn choose(
    option: Option<PathBuf>,
    environment: Option<PathBuf>,
    runtime: Option<PathBuf>,
    user: u32,
) -> PathBuf {
    let default = || match (user, runtime) {
        (0, _) => "/run/sandboxd".into(),
        (_, Some(runtime)) => runtime.join("sandboxd"),
        (user, None) => format!("/tmp/sandboxd-{user}").into(),
    };
    option.or(environment).unwrap_or_else(default)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_path_and_a_descriptor_to_listen_at_exclude_each_other() {
        let arguments = ["sandboxd-agent", "serve", "--listen", "/a", "--listen-fd", "3"];
        assert!(Cli::try_parse_from(arguments).is_err());
    }

    #[test]
    fn the_state_folder_is_the_first_of_option_environment_and_default() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(choose(path("/a"), path("/b"), path("/c"), 0), Path::new("/a"));
        assert_eq!(choose(None, path("/b"), path("/c"), 0), Path::new("/b"));
        assert_eq!(choose(None, None, path("/c"), 0), Path::new("/run/sandboxd"));
        assert_eq!(choose(None, None, path("/c"), 7), Path::new("/c/sandboxd"));
        assert_eq!(choose(None, None, None, 7), Path::new("/tmp/sandboxd-7"));
    }
}
