//! The share of a sandbox in the processors, and when it does not count.
//!
//! Processes that are being killed need a processor to end, and so does init, which has to tell of it.
//! With a share of a hundredth, thousands of them would need minutes, and whoever waits for the end of
//! a command would wait with them. So the share does not bind while something is being ended; on
//! which processors the sandbox runs stays as it is. If init is not heard of even so, it is put first in line
//! once more.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use sandboxd_linux::cgroup::SandboxCgroup;
use sandboxd_linux::{pidfd, process};

use crate::lock::lock;

#[derive(Debug)]
pub(crate) struct Share {
    cgroup: Arc<SandboxCgroup>,
    millis: u32,
    init: Init,
    /// Ends under way.
    ends: Mutex<u32>,
}

#[derive(Debug)]
struct Init {
    pid: u32,
    /// `None` if it was gone already.
    process: Option<OwnedFd>,
}

/// While this lives, the share does not bind.
#[derive(Debug)]
#[must_use = "the share binds again at once"]
pub(crate) struct Unbound(Arc<Share>);

impl Share {
    pub(super) fn new(cgroup: Arc<SandboxCgroup>, millis: u32, init_pid: u32) -> Arc<Self> {
        let init = Init { pid: init_pid, process: pidfd::open(init_pid).ok() };
        Arc::new(Self { cgroup, millis, init, ends: Mutex::default() })
    }

    pub(super) fn unbind(self: &Arc<Self>) -> Unbound {
        let mut ends = lock(&self.ends);
        *ends += 1;
        if *ends == 1 {
            self.set(None);
        }
        Unbound(Arc::clone(self))
    }

    fn set(&self, millis: Option<u32>) {
        if let Err(error) = self.cgroup.set_cpu_limit(millis) {
            // Gone with its sandbox, most likely. If not, an end takes longer, or the share is too
            // large until the next end.
            tracing::warn!(%error, "cannot change a share of the processors");
        }
    }
}

impl Unbound {
    /// Puts init first in line for a processor, among the programs of its sandbox. Best effort.
    pub(crate) fn insist(&self) {
        let Init { pid, process } = &self.0.init;
        // Its pid is its own for as long as there is such a process.
        let lives = process.as_ref().is_some_and(|init| pidfd::send_signal(init, 0).is_ok());
        if lives {
            let _ = process::put_first(*pid);
        }
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        let mut ends = lock(&self.0.ends);
        *ends -= 1;
        if *ends == 0 {
            self.0.set(Some(self.0.millis));
        }
    }
}
