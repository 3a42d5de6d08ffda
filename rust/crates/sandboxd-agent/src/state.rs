//! The state folder: what an agent keeps on disk, for as long as it lives.
//!
//! ```text
//! STATE/                          0700, ours alone
//!   sockets/NAME.sock             where agents listen; `sandboxd ls` finds them here
//!   agents/PID-STARTTIME/         of one agent, removed at its end
//!     host/ cpus-N/               layers of templates
//! ```
//!
//! An agent that was killed leaves its folder behind; the next one sweeps it. The start time in the
//! name tells an agent from a stranger that has its pid now.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use sandboxd_linux::cgroup::{Owner, living_since};
use sandboxd_proto::{CallError, ErrorCode};

use crate::call::Answer;

/// The folder of this agent.
#[derive(Debug, Clone)]
pub(crate) struct StateFolder {
    root: PathBuf,
    agent: Owner,
    own: PathBuf,
}

impl StateFolder {
    /// Opens `root`, or makes it, and makes this agent's folder in it.
    ///
    /// # Errors
    ///
    /// `state_unusable`, naming the path and what to change: it belongs to somebody else, others
    /// may enter it, it is read-only or full.
    pub(crate) fn open(root: &Path) -> Answer<Self> {
        private_folder(root)?;
        let agent = Owner::current().map_err(|error| unusable(root, &error))?;
        let agents = root.join("agents");
        private_folder(&agents)?;
        private_folder(&root.join("sockets"))?;
        let own = agents.join(agent.to_string());
        private_folder(&own)?;
        Ok(Self { root: root.to_owned(), agent, own })
    }

    /// The folder that all agents share.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// This agent's part of it.
    pub(crate) fn own(&self) -> &Path {
        &self.own
    }

    /// Where this agent listens unless told otherwise.
    pub(crate) fn default_socket(&self) -> PathBuf {
        self.root.join("sockets").join(format!("{}.sock", self.agent))
    }

    /// Removes what agents left behind that are gone. Best effort: what cannot be removed now is
    /// tried again by the next agent.
    pub(crate) fn sweep(&self) {
        for (path, name) in entries(&self.root.join("agents")) {
            let gone = Owner::parse(&name).is_some_and(|owner| !owner.is_alive());
            if gone && let Err(error) = fs::remove_dir_all(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot sweep");
            }
        }
        for (path, name) in entries(&self.root.join("sockets")) {
            let pid = name.split_once('-').and_then(|(pid, _)| pid.parse::<u32>().ok());
            let owner_is_gone = pid.is_some_and(|pid| living_since(pid).is_none());
            // Whoever made the socket may have handed it to an agent that still listens.
            let refused = || {
                UnixStream::connect(&path)
                    .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
            };
            if owner_is_gone && refused() {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Removes this agent's folder.
    pub(crate) fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.own)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(path = %self.own.display(), %error, "cannot remove the agent's folder");
        }
    }
}

/// Turns a failure beneath the state folder into the error that names the remedy.
pub(crate) fn unusable(path: &Path, error: &io::Error) -> CallError {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space",
        ErrorKind::ReadOnlyFilesystem => "remount it writable",
        _ => "make it writable for this user",
    };
    let path = path.display();
    let message = format!(
        "state folder {path} cannot be used: {error}; {remedy}, or choose another with --state or \
         SANDBOXD_AGENT_STATE"
    );
    CallError::new(ErrorCode::StateUnusable, message)
}

/// Makes a folder for this user alone, or checks that an existing one is that.
fn private_folder(path: &Path) -> Answer<()> {
    let made = DirBuilder::new().mode(0o700).create(path);
    let made = match made {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            DirBuilder::new().mode(0o700).recursive(true).create(path)
        }
        other => other,
    };
    match made {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unusable(path, &error)),
    }
    // Not followed: a link planted in /tmp must not lead the agent to a folder it did not mean.
    let found = fs::symlink_metadata(path).map_err(|error| unusable(path, &error))?;
    let user = rustix::process::geteuid().as_raw();
    let shown = path.display();
    let problem = if !found.is_dir() {
        format!("{shown} is not a directory; remove it")
    } else if found.uid() != user {
        format!("{shown} belongs to uid {}, not to uid {user}; remove it", found.uid())
    } else if found.mode() & 0o077 != 0 {
        format!("{shown} may be entered by others; run chmod 700 {shown}")
    } else {
        return Ok(());
    };
    let message =
        format!("state folder {problem}, or choose another with --state or SANDBOXD_AGENT_STATE");
    Err(CallError::new(ErrorCode::StateUnusable, message))
}

fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("state");
        (parent, root)
    }

    #[test]
    fn it_is_made_for_this_user_alone_and_removed_at_the_end() {
        let (_parent, root) = folder();
        let state = StateFolder::open(&root).unwrap();
        for path in [state.root(), state.own()] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o700, "{}", path.display());
        }
        state.remove();
        assert!(!state.own().exists());
    }

    #[test]
    fn one_that_others_may_enter_is_refused_with_the_remedy() {
        let (_parent, root) = folder();
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let error = StateFolder::open(&root).unwrap_err();
        assert_eq!(error.code, ErrorCode::StateUnusable);
        assert!(error.message.contains("chmod 700"), "{error}");
    }

    #[test]
    fn a_link_or_a_file_in_its_place_is_refused() {
        let (parent, root) = folder();
        std::os::unix::fs::symlink(parent.path(), &root).unwrap();
        assert_eq!(StateFolder::open(&root).unwrap_err().code, ErrorCode::StateUnusable);
        fs::remove_file(&root).unwrap();
        fs::write(&root, "").unwrap();
        assert_eq!(StateFolder::open(&root).unwrap_err().code, ErrorCode::StateUnusable);
    }

    #[test]
    fn folders_of_dead_agents_are_swept_and_those_of_living_ones_stay() {
        let (_parent, root) = folder();
        let state = StateFolder::open(&root).unwrap();
        let stale = root.join(format!("agents/{}-1", std::process::id()));
        let foreign = root.join("agents/notes");
        fs::create_dir_all(stale.join("host/etc")).unwrap();
        fs::create_dir(&foreign).unwrap();
        state.sweep();
        assert!(!stale.exists(), "same pid, other start time");
        assert!(state.own().exists());
        assert!(foreign.exists(), "not an agent's");
    }

    #[test]
    fn sockets_nobody_listens_on_are_swept_once_their_maker_is_gone() {
        let (_parent, root) = folder();
        let state = StateFolder::open(&root).unwrap();
        let alive = root.join(format!("sockets/{}-a.sock", std::process::id()));
        let dead = root.join("sockets/4194999-b.sock");
        drop(std::os::unix::net::UnixListener::bind(&alive).unwrap());
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        state.sweep();
        assert!(alive.exists());
        assert!(!dead.exists());
    }

    #[test]
    fn the_folder_of_a_dead_agent_is_swept_before_anybody_has_waited_for_it() {
        let (_parent, root) = folder();
        let state = StateFolder::open(&root).unwrap();
        let mut agent = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let since = living_since(agent.id()).unwrap();
        let its = root.join(format!("agents/{}-{since}", agent.id()));
        fs::create_dir(&its).unwrap();
        state.sweep();
        assert!(its.exists());
        agent.kill().unwrap();
        while living_since(agent.id()).is_some() {
            std::thread::yield_now();
        }
        state.sweep();
        assert!(!its.exists());
        agent.wait().unwrap();
    }
}
