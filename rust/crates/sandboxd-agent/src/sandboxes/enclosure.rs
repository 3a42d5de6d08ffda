//! What encloses a ready sandbox: its init, root, ids and groups.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::fstatvfs;
use sandboxd_linux::cgroup::{Hits, Leaf, SandboxCgroup};
use sandboxd_linux::protocol::{Containment, IdRange};

use super::spec::Spec;
use crate::call::Answer;
use crate::exec::{Hit, Identity, LeafPool, has_leaves, parse_user};
use crate::lock::lock;
use crate::packets::PacketSocket;

/// How long killed processes usually take to be gone and reaped.
const ROOM_LOOK: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Enclosure {
    pub(crate) init: Arc<PacketSocket>,
    /// `O_PATH`.
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) ids: IdRange,
    /// As the agent sees it.
    pub(crate) init_pid: u32,
    /// From the claim to init's first word.
    pub(crate) startup: Duration,
    pub(crate) containment: Containment,
    pub(crate) leaves: LeafPool,
    cgroup: Arc<SandboxCgroup>,
    /// Whether any limit is set that the kernel counts hits of.
    counted: bool,
    /// How often limits had been met when last looked at.
    seen: Mutex<Hits>,
    root_identity: Mutex<Option<Arc<Identity>>>,
}

impl Enclosure {
    #[expect(clippy::too_many_arguments, reason = "each is a part, made in one place")]
    pub(super) fn new(
        init: Arc<PacketSocket>,
        root: OwnedFd,
        ids: IdRange,
        init_pid: u32,
        startup: Duration,
        containment: Containment,
        leaves: LeafPool,
        cgroup: Arc<SandboxCgroup>,
        spec: &Spec,
    ) -> Arc<Self> {
        let limits = &spec.limits;
        let root = Arc::new(root);
        Arc::new(Self {
            init,
            root,
            ids,
            init_pid,
            startup,
            containment,
            leaves,
            cgroup,
            counted: limits.memory_bytes.is_some() || limits.pids.is_some(),
            seen: Mutex::default(),
            root_identity: Mutex::default(),
        })
    }

    /// Who a command runs as. `user` is its own wish; empty is the sandbox's.
    ///
    /// # Errors
    ///
    /// When there is no such user.
    pub(crate) fn identity(&self, user: &str, spec: &Spec) -> Answer<Arc<Identity>> {
        let user = if user.is_empty() { &spec.user } else { user };
        // Others are looked up each time: whoever runs inside may add users.
        if let Some(user) = parse_user(user)?.filter(|_| user != "root" && user != "0") {
            return Identity::resolve(&*self.root, &user, self.ids, spec.claimed()).map(Arc::new);
        }
        let mut known = lock(&self.root_identity);
        let make = || Arc::new(Identity::root(&*self.root, spec.claimed()));
        Ok(Arc::clone(known.get_or_insert_with(make)))
    }

    /// A leaf for an exec; `None` where a subreaper keeps its processes together.
    ///
    /// # Errors
    ///
    /// If none can be made.
    pub(crate) fn take_leaf(&self) -> io::Result<Option<Leaf>> {
        let leaves = has_leaves(self.containment);
        leaves.then(|| self.leaves.take(&self.cgroup, self.ids.first)).transpose()
    }

    /// How often limits were met so far. With nothing else running, nothing can have changed since
    /// it was last looked at.
    pub(crate) fn hits(&self, others_run: bool) -> Hits {
        if others_run || self.leaves.any_lingering() { self.look() } else { *lock(&self.seen) }
    }

    /// How often limits were met since `before`.
    pub(crate) fn hits_since(&self, before: &Hits) -> Hits {
        let now = self.look();
        Hits {
            oom_kills: now.oom_kills.saturating_sub(before.oom_kills),
            pids_refusals: now.pids_refusals.saturating_sub(before.pids_refusals),
        }
    }

    /// The most memory that the sandbox has had in use at once, if the kernel tells.
    pub(crate) fn memory_peak(&self) -> Option<u64> {
        self.cgroup.counters().ok()?.memory_peak_bytes
    }

    fn look(&self) -> Hits {
        let mut seen = lock(&self.seen);
        // A group that cannot be read is gone, and the sandbox with it.
        if self.counted
            && let Ok(now) = self.cgroup.hits()
        {
            *seen = now;
        }
        *seen
    }

    /// The size of the writable layer, if there is no room in it: for a byte, or for another file.
    pub(crate) fn full_disk(&self) -> Option<Hit> {
        let found = fstatvfs(&*self.root).ok()?;
        let size = found.f_blocks.saturating_mul(found.f_frsize);
        (found.f_bavail == 0 || found.f_favail == 0).then_some(Hit { limit: size, peak: size })
    }

    /// Ends background processes that leave no room for a command, and waits a moment.
    pub(crate) async fn make_room(&self) {
        self.leaves.revisit();
        self.leaves.kill_lingering();
        tokio::time::sleep(ROOM_LOOK).await;
    }
}
