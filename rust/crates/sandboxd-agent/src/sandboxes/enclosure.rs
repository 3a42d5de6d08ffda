//! What encloses a ready sandbox: its init, root, ids and groups.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::fstatvfs;
use sandboxd_linux::cgroup::{self, Hits, Leaf, SandboxCgroup};
use sandboxd_linux::mount::resize_tmpfs;
use sandboxd_linux::protocol::{Containment, IdRange};

use sandboxd_proto::v1;

use super::share::{Share, Unbound};
use super::spec::Spec;
use crate::call::Answer;
use crate::exec::{Hit, Identity, LeafPool, has_leaves, parse_user};
use crate::lock::lock;
use crate::packets::PacketSocket;

/// How long killed processes usually take to be gone and reaped.
const ROOM_LOOK: Duration = Duration::from_millis(5);

/// What is known of a sandbox when an exec starts, to tell at its end what happened meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline {
    /// How often limits had been met.
    hits: Hits,
    /// Neither another exec ran, nor what an earlier one left in the background.
    pub(crate) alone: bool,
    /// The writable layer had room; also if it has no limit.
    pub(crate) had_room: bool,
}

#[derive(Debug)]
pub(crate) struct Enclosure {
    pub(crate) init: Arc<PacketSocket>,
    /// `O_PATH`.
    pub(crate) root: Arc<OwnedFd>,
    /// The mount of the writable layer, if init gave it away. Attached nowhere, if the kernel can copy
    /// such a mount.
    pub(crate) disk: Option<OwnedFd>,
    pub(crate) ids: IdRange,
    /// As the agent sees it.
    pub(crate) init_pid: u32,
    /// From the claim to init's first word.
    pub(crate) startup: Duration,
    pub(crate) containment: Containment,
    pub(crate) leaves: LeafPool,
    cgroup: Arc<SandboxCgroup>,
    /// `None` without a limit on it.
    share: Option<Arc<Share>>,
    /// Whether any limit is set that the kernel counts hits of.
    counted: bool,
    /// Whether the writable layer has a limit.
    disk_limited: bool,
    /// How often limits had been met when last looked at.
    seen: Mutex<Hits>,
    root_identity: Mutex<Option<Arc<Identity>>>,
    still: Mutex<Still>,
}

/// Whether everything stands still, for a grader.
#[derive(Debug, Clone, Copy, Default)]
enum Still {
    #[default]
    Never,
    Now,
    Until(Instant),
}

impl Enclosure {
    #[expect(clippy::too_many_arguments, reason = "each is a part, made in one place")]
    pub(super) fn new(
        init: Arc<PacketSocket>,
        root: OwnedFd,
        disk: Option<OwnedFd>,
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
            disk,
            ids,
            init_pid,
            startup,
            containment,
            leaves,
            share: limits
                .cpu_millis
                .map(|millis| Share::new(Arc::clone(&cgroup), millis, init_pid)),
            cgroup,
            counted: limits.memory_bytes.is_some() || limits.pids.is_some(),
            disk_limited: limits.disk_bytes.is_some(),
            seen: Mutex::default(),
            root_identity: Mutex::default(),
            still: Mutex::default(),
        })
    }

    /// Whether its init lives, as far as the kernel has told.
    pub(super) fn is_alive(&self) -> bool {
        !self.init.is_closed()
    }

    /// Gives a sandbox that nothing has run in the limits of a claim in place of those that it was
    /// made with.
    ///
    /// # Errors
    ///
    /// The field that only a new sandbox can have. Nothing was changed.
    pub(super) fn rebind(&self, old: &v1::Limits, new: &v1::Limits) -> Result<(), &'static str> {
        // Which CPUs programs see is settled by the root, and so when it is made.
        if old.cpu_millis != new.cpu_millis {
            return Err("limits.cpu_millis");
        }
        // Limits that the host cannot enforce are neither the template's nor any claim's.
        if old.memory_bytes.is_some() != new.memory_bytes.is_some() {
            return Err("limits.memory_bytes");
        }
        if old.pids.is_some() != new.pids.is_some() {
            return Err("limits.pids");
        }
        if old.disk_bytes != new.disk_bytes {
            let resized = match (&self.disk, new.disk_bytes) {
                (Some(disk), Some(bytes)) => resize_tmpfs(disk, bytes),
                _ => return Err("limits.disk_bytes"),
            };
            resized.map_err(|_| "limits.disk_bytes")?;
        }
        if (old.memory_bytes, old.pids) == (new.memory_bytes, new.pids) {
            return Ok(());
        }
        let limits = |limits: &v1::Limits| cgroup::Limits {
            memory_bytes: limits.memory_bytes,
            pids: limits.pids,
            cpu_millis: None,
        };
        self.cgroup.limit(&limits(new)).map_err(|error| {
            tracing::warn!(%error, "limits of a warm sandbox cannot be changed");
            // Best effort: it was made with these, so they can be had.
            let _ = self.cgroup.limit(&limits(old));
            if let (Some(disk), Some(bytes)) = (&self.disk, old.disk_bytes) {
                let _ = resize_tmpfs(disk, bytes);
            }
            "limits.memory_bytes"
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

    /// A leaf for an exec; `None` where a subreaper keeps its processes together. `exact`: as
    /// [`LeafPool::take`].
    ///
    /// # Errors
    ///
    /// If none can be made.
    pub(crate) fn take_leaf(&self, exact: bool) -> io::Result<Option<Leaf>> {
        let leaves = has_leaves(self.containment);
        leaves.then(|| self.leaves.take(&self.cgroup, self.ids.first, exact)).transpose()
    }

    /// Lets the sandbox have all the processor time it can get, until what is returned is dropped.
    pub(crate) fn unbind_cpu(&self) -> Option<Unbound> {
        self.share.as_ref().map(Share::unbind)
    }

    /// To be taken when an exec starts, before anything of it runs.
    pub(crate) fn baseline(&self, others_run: bool) -> Baseline {
        let mut lingering = self.leaves.any_lingering();
        if lingering {
            // They may have ended long ago.
            self.leaves.revisit();
            lingering = self.leaves.any_lingering();
            self.look();
        } else if others_run {
            self.look();
        }
        // With nothing else running, nothing can have changed since it was last looked at.
        let hits = *lock(&self.seen);
        Baseline { hits, alone: !others_run && !lingering, had_room: self.full_disk().is_none() }
    }

    /// How often limits were met since `before`.
    pub(crate) fn hits_since(&self, before: &Baseline) -> Hits {
        let now = self.look();
        Hits {
            oom_kills: now.oom_kills.saturating_sub(before.hits.oom_kills),
            pids_refusals: now.pids_refusals.saturating_sub(before.hits.pids_refusals),
        }
    }

    /// Takes note of the limits that were met so far: no later exec is blamed for them.
    pub(crate) fn settle_hits(&self) {
        self.look();
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

    /// The size of the writable layer, if it is limited and there is no room in it: for a byte, or
    /// for another file.
    pub(crate) fn full_disk(&self) -> Option<Hit> {
        if !self.disk_limited {
            return None;
        }
        let found = fstatvfs(&*self.root).ok()?;
        let size = found.f_blocks.saturating_mul(found.f_frsize);
        (found.f_bavail == 0 || found.f_favail == 0).then_some(Hit { limit: size, peak: size })
    }

    /// Begins to stop every process that commands have started, until [`Self::thaw`].
    ///
    /// # Errors
    ///
    /// Where processes cannot be frozen. Some may be then.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        *lock(&self.still) = Still::Now;
        self.cgroup.freeze()
    }

    /// Whether all have stopped.
    ///
    /// # Errors
    ///
    /// As [`Self::freeze`].
    pub(crate) fn is_frozen(&self) -> io::Result<bool> {
        self.cgroup.is_frozen()
    }

    /// Lets them go on.
    pub(crate) fn thaw(&self) {
        if let Err(error) = self.cgroup.thaw() {
            tracing::error!(%error, "a sandbox stays frozen");
        }
        *lock(&self.still) = Still::Until(Instant::now());
    }

    /// Until when everything stood still the last time; now, if it does.
    pub(crate) fn still_until(&self) -> Option<Instant> {
        match *lock(&self.still) {
            Still::Never => None,
            Still::Now => Some(Instant::now()),
            Still::Until(then) => Some(then),
        }
    }

    /// Ends background processes that leave no room for a command, and waits a moment.
    pub(crate) async fn make_room(&self) {
        self.leaves.revisit();
        self.leaves.kill_lingering();
        tokio::time::sleep(ROOM_LOOK).await;
        // What they were refused is theirs.
        self.settle_hits();
    }
}
