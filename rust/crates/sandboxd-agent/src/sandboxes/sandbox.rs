//! One sandbox: from its claim to its end.
//!
//! `Starting → Ready → Ended`, or `Starting → Ended`; nothing leads back. The keeper
//! ([`super::keeper`]) makes it ready and clears away what is left; anyone may end it.
//!
//! One that was made ahead of any claim gets its name, what was asked for and its clocks when it is
//! claimed, once ([`Sandbox::bind`]). No call reaches it before that.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sandboxd_linux::protocol::LayeredMount;
use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::sync::Notify;

use super::enclosure::Enclosure;
use super::spec::Spec;
use super::table::Fit;
use crate::call::Answer;
use crate::counters::Counters;
use crate::exec::Execs;
use crate::files::{Protected, Uploads};
use crate::graders::Gate;
use crate::lock::lock;

#[derive(Debug)]
pub(crate) struct Sandbox {
    /// Its number between agent and launcher, and in the names of cgroups.
    pub(crate) number: u32,
    /// Of its agent.
    pub(crate) counters: Arc<Counters>,
    /// What it was made for.
    made: Claimed,
    /// Whether it was made ahead of any claim.
    warm: bool,
    /// The claim of one that was made ahead.
    bound: OnceLock<(Claimed, Duration)>,
    /// Why it was made although warm ones were there: a field of its claim.
    cold_because: OnceLock<&'static str>,
    life: Mutex<Life>,
    /// `life` has changed.
    changed: Notify,
    /// For the keeper: the end was ordered.
    pub(super) ending: Notify,
    execs: Execs,
    uploads: Uploads,
    /// In turn: starts of commands, and graders.
    pub(crate) gate: Gate,
    /// Files that graders see. Made with the first of them; gone with the sandbox.
    protected: Mutex<Option<Arc<Protected>>>,
    /// The last [`ToInit::Sync`] that was sent, and the last that was answered.
    ///
    /// [`ToInit::Sync`]: sandboxd_linux::protocol::ToInit::Sync
    syncs: [AtomicU32; 2],
    /// It is the box of a grader.
    is_grader: bool,
}

/// What a claim says about a sandbox, or, of one that waits for a claim, its order.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) id: Arc<str>,
    pub(crate) spec: Arc<Spec>,
    /// When the claim arrived; every clock starts here.
    pub(crate) claimed: Instant,
    created_unix_ns: u64,
}

impl Claimed {
    fn now(id: Arc<str>, spec: Arc<Spec>) -> Self {
        Self { id, spec, claimed: Instant::now(), created_unix_ns: unix_nanos() }
    }
}

/// A sandbox is what its claim says, whenever that came.
impl Deref for Sandbox {
    type Target = Claimed;

    fn deref(&self) -> &Claimed {
        self.bound.get().map_or(&self.made, |(claimed, _)| claimed)
    }
}

/// What a sandbox is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Claim,
    /// A claim that has not come yet.
    Ahead,
    Grader,
}

#[derive(Debug)]
enum Life {
    Starting,
    Ready(Arc<Enclosure>),
    /// Nothing runs any more, or is being killed.
    Ended(CallError),
    /// Nothing of it is left but cgroups.
    Gone(CallError),
}

impl Sandbox {
    /// One for a claim.
    pub(crate) fn new(
        id: Arc<str>,
        number: u32,
        spec: Arc<Spec>,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        Arc::new(Self::make(id, number, spec, counters, Use::Claim))
    }

    /// One for a claim that has not come yet.
    pub(crate) fn ahead(
        id: Arc<str>,
        number: u32,
        spec: Arc<Spec>,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        Arc::new(Self::make(id, number, spec, counters, Use::Ahead))
    }

    /// The box of a grader of `sandbox`. It is in no table, and nobody but its grader knows of it.
    pub(crate) fn beside(sandbox: &Self, number: u32) -> Arc<Self> {
        let (id, spec) = (Arc::clone(&sandbox.id), Arc::clone(&sandbox.spec));
        Arc::new(Self::make(id, number, spec, Arc::clone(&sandbox.counters), Use::Grader))
    }

    fn make(
        id: Arc<str>,
        number: u32,
        spec: Arc<Spec>,
        counters: Arc<Counters>,
        made_for: Use,
    ) -> Self {
        let made = Claimed::now(id, spec);
        let claimed = made.claimed;
        Self {
            number,
            counters,
            made,
            warm: made_for == Use::Ahead,
            bound: OnceLock::new(),
            cold_because: OnceLock::new(),
            life: Mutex::new(Life::Starting),
            changed: Notify::new(),
            ending: Notify::new(),
            execs: Execs::new(claimed),
            uploads: Uploads::default(),
            gate: Gate::default(),
            protected: Mutex::default(),
            syncs: Default::default(),
            is_grader: made_for == Use::Grader,
        }
    }

    /// The protected files of the sandbox, whose template has the root `template`.
    ///
    /// # Errors
    ///
    /// If there is no room for any, or the sandbox has ended.
    pub(crate) fn protected(&self, template: &[LayeredMount]) -> Answer<Arc<Protected>> {
        let mut protected = lock(&self.protected);
        // Asked under the lock, so that none are made after the end has taken them away.
        if let Some(error) = self.ended_with() {
            return Err(error);
        }
        if let Some(protected) = &*protected {
            return Ok(Arc::clone(protected));
        }
        let made = Protected::new(template).map_err(|error| {
            let message = format!("agent has no room for protected files: {error}");
            CallError::new(ErrorCode::ResourceExhausted, message)
        })?;
        Ok(Arc::clone(protected.insert(Arc::new(made))))
    }

    /// Whether a grader has run, or runs.
    pub(super) fn is_graded(&self) -> bool {
        self.syncs[0].load(Ordering::Relaxed) > 0
    }

    /// A number for init to answer with.
    pub(crate) fn next_sync(&self) -> u32 {
        self.syncs[0].fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Init has answered with this number.
    pub(super) fn set_synced(&self, number: u32) {
        self.syncs[1].store(number, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Waits until init has answered with this number. Returns `false` if it never will.
    pub(crate) async fn synced(&self, number: u32) -> bool {
        self.wait(|life| {
            let answered = self.syncs[1].load(Ordering::Relaxed) == number;
            let ended = matches!(life, Life::Ended(_) | Life::Gone(_));
            (answered || ended).then_some(answered)
        })
        .await
    }

    pub(crate) fn execs(&self) -> &Execs {
        &self.execs
    }

    pub(crate) fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    /// Waits until the sandbox ends, and says why.
    pub(crate) async fn ended(&self) -> CallError {
        let found = |life: &Life| match life {
            Life::Ended(error) | Life::Gone(error) => Some(error.clone()),
            Life::Starting | Life::Ready(_) => None,
        };
        self.wait(found).await
    }

    /// Gives a warm sandbox to the claim that `new` was entered for, if it lives and can have what is
    /// asked for. Its clocks start now.
    pub(super) fn bind(&self, new: &Self) -> Fit {
        let Life::Ready(enclosure) = &*lock(&self.life) else { return Fit::Dead };
        if !enclosure.is_alive() {
            return Fit::Dead;
        }
        if let Err(field) = enclosure.rebind(&self.spec.limits, &new.spec.limits) {
            let _ = new.cold_because.set(field);
            return Fit::Never;
        }
        let claimed = Claimed {
            id: Arc::clone(&new.id),
            spec: Arc::clone(&new.spec),
            claimed: new.claimed,
            created_unix_ns: new.created_unix_ns,
        };
        self.execs.touch(new.claimed);
        match self.bound.set((claimed, new.claimed.elapsed())) {
            Ok(()) => Fit::Taken,
            Err(_) => Fit::Dead,
        }
    }

    /// Whether it waits for a claim.
    pub(super) fn is_waiting(&self) -> bool {
        self.warm && self.bound.get().is_none()
    }

    /// Waits until the sandbox is ready. Those who wait go on in the order in which they came.
    ///
    /// # Errors
    ///
    /// Why it never will be, or is no more.
    pub(crate) async fn ready(&self) -> Answer<Arc<Enclosure>> {
        let found = |life: &Life| match life {
            Life::Starting => None,
            Life::Ready(enclosure) => Some(Ok(Arc::clone(enclosure))),
            Life::Ended(error) | Life::Gone(error) => Some(Err(error.clone())),
        };
        self.wait(found).await
    }

    /// Waits until nothing of an ended sandbox runs.
    pub(crate) async fn gone(&self) {
        self.wait(|life| matches!(life, Life::Gone(_)).then_some(())).await;
    }

    async fn wait<T>(&self, found: impl Fn(&Life) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = found(&lock(&self.life)) {
                return found;
            }
            changed.await;
        }
    }

    /// Lets calls in. Nothing happens if the sandbox was ended meanwhile.
    pub(super) fn set_ready(&self, enclosure: Arc<Enclosure>) {
        let mut life = lock(&self.life);
        if matches!(*life, Life::Starting) {
            *life = Life::Ready(enclosure);
            drop(life);
            self.changed.notify_waiters();
        }
    }

    /// Ends the sandbox: later calls end with `error` at once, those in it when nothing of it runs
    /// any more ([`Self::tell_its_end`]). Returns whether it had not ended before.
    pub(crate) fn end(&self, error: CallError) -> bool {
        let mut life = lock(&self.life);
        if matches!(*life, Life::Ended(_) | Life::Gone(_)) {
            return false;
        }
        *life = Life::Ended(error.clone());
        drop(life);
        drop(lock(&self.protected).take());
        self.execs.close(&error);
        self.uploads.close();
        self.changed.notify_waiters();
        self.ending.notify_one();
        true
    }

    /// Ends the calls in a sandbox that ended, with its error.
    pub(super) fn tell_its_end(&self) {
        if let Some(error) = self.ended_with() {
            self.execs.lose(&error);
        }
    }

    pub(super) fn set_gone(&self) {
        let mut life = lock(&self.life);
        if let Life::Ended(error) = &*life {
            *life = Life::Gone(error.clone());
        }
        drop(life);
        self.changed.notify_waiters();
    }

    /// Ends the sandbox because of something that must not be.
    pub(crate) fn give_up(&self, reason: &str) {
        tracing::error!(sandbox_id = %self.id, reason, "sandbox is given up");
        self.end(self.lost_error(reason));
    }

    /// The error of a sandbox that the infrastructure ended.
    pub(crate) fn lost_error(&self, reason: &str) -> CallError {
        if self.is_grader {
            return self.lost_grader(reason);
        }
        let message = format!("sandbox {:?} is lost: {reason}", &*self.id);
        CallError::new(ErrorCode::SandboxLost, message).with_reason(reason)
    }

    /// The error of a grader that the infrastructure ended. Its sandbox lives on.
    pub(crate) fn lost_grader(&self, reason: &str) -> CallError {
        let message = format!("the grader in sandbox {:?} is lost: {reason}", &*self.id);
        CallError::new(ErrorCode::Internal, message).with_reason(reason)
    }

    /// The error with which it ended, if it has.
    pub(crate) fn ended_with(&self) -> Option<CallError> {
        match &*lock(&self.life) {
            Life::Ended(error) | Life::Gone(error) => Some(error.clone()),
            Life::Starting | Life::Ready(_) => None,
        }
    }

    pub(crate) fn expires(&self) -> Instant {
        // A lifetime beyond what the clock can count is none.
        let far = Duration::from_secs(100 * 365 * 24 * 60 * 60);
        self.claimed + self.spec.ttl.min(far)
    }

    /// As lists and claims show it.
    pub(crate) fn summary(&self) -> v1::Sandbox {
        let life = lock(&self.life);
        let (state, enclosure) = match &*life {
            Life::Starting => (v1::SandboxState::Starting, None),
            Life::Ready(enclosure) if self.is_waiting() => {
                (v1::SandboxState::Warm, Some(Arc::clone(enclosure)))
            }
            Life::Ready(enclosure) => (v1::SandboxState::Ready, Some(Arc::clone(enclosure))),
            Life::Ended(_) | Life::Gone(_) => (v1::SandboxState::Ended, None),
        };
        drop(life);
        let enclosure = enclosure.as_ref();
        let expires = match self.is_waiting() {
            true => 0,
            false => self.created_unix_ns.saturating_add(nanoseconds(self.spec.ttl)),
        };
        let made_in = enclosure.map_or(0, |enclosure| nanoseconds(enclosure.startup));
        let (launch, startup_ns, warmed_startup_ns, warmed_as) = match self.bound.get() {
            Some((_, bound_in)) => {
                let name = self.made.id.to_string();
                (v1::Launch::Warm, nanoseconds(*bound_in), made_in, name)
            }
            None if self.warm => (v1::Launch::Warm, made_in, made_in, self.made.id.to_string()),
            None => (v1::Launch::Cold, made_in, 0, String::new()),
        };
        v1::Sandbox {
            sandbox_id: self.id.to_string(),
            template: self.spec.template.name.clone(),
            state: state.into(),
            launch: launch.into(),
            startup_ns,
            limits: Some(self.spec.limits),
            id_range: enclosure.map_or(0, |enclosure| enclosure.ids.count),
            created_unix_ns: self.created_unix_ns,
            expires_unix_ns: expires,
            running_execs: u32::try_from(self.execs.running()).unwrap_or(u32::MAX),
            labels: self.spec.labels.clone(),
            init_pid: enclosure.map_or(0, |enclosure| enclosure.init_pid),
            warmed_as,
            warmed_startup_ns,
            cold_because: self.cold_because.get().map_or_else(String::new, |&why| why.to_owned()),
        }
    }
}

/// Nanoseconds since 1970, by the machine's clock.
pub(crate) fn unix_nanos() -> u64 {
    nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
