//! The share of a sandbox in the processors, and when it does not count.
//!
//! Processes that are being killed need a processor to end, and so does init, which has to tell of it.
//! With a share of a hundredth, thousands of them would need minutes, and whoever waits for the end of
//! a command would wait with them. So the share does not bind while something is being ended; on
//! which processors the sandbox runs stays as it is.

use std::sync::{Arc, Mutex};

use sandboxd_linux::cgroup::SandboxCgroup;

use crate::lock::lock;

#[derive(Debug)]
pub(crate) struct Share {
    cgroup: Arc<SandboxCgroup>,
    millis: u32,
    /// Ends under way.
    unbound: Mutex<u32>,
}

/// While this lives, the share does not bind.
#[derive(Debug)]
#[must_use = "the share binds again at once"]
pub(crate) struct Unbound(Arc<Share>);

impl Share {
    pub(super) fn new(cgroup: Arc<SandboxCgroup>, millis: u32) -> Arc<Self> {
        Arc::new(Self { cgroup, millis, unbound: Mutex::new(0) })
    }

    pub(super) fn unbind(self: &Arc<Self>) -> Unbound {
        let mut unbound = lock(&self.unbound);
        *unbound += 1;
        if *unbound == 1 {
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

impl Drop for Unbound {
    fn drop(&mut self) {
        let mut unbound = lock(&self.0.unbound);
        *unbound -= 1;
        if *unbound == 0 {
            self.0.set(Some(self.0.millis));
        }
    }
}
