//! One sandbox: from its claim to its end.
//!
//! `Starting → Ready → Ended`, or `Starting → Ended`; nothing leads back. The keeper
//! ([`super::keeper`]) makes it ready and clears away what is left; anyone may end it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::sync::Notify;

use super::enclosure::Enclosure;
use super::spec::Spec;
use crate::call::Answer;
use crate::counters::Counters;
use crate::exec::Execs;
use crate::files::Uploads;
use crate::lock::lock;

#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: Arc<str>,
    /// Its number between agent and launcher, and in the names of cgroups.
    pub(crate) number: u32,
    pub(crate) spec: Spec,
    /// When the claim arrived; every clock starts here.
    pub(crate) claimed: Instant,
    /// Of its agent.
    pub(crate) counters: Arc<Counters>,
    created_unix_ns: u64,
    life: Mutex<Life>,
    /// `life` has changed.
    changed: Notify,
    /// For the keeper: the end was ordered.
    pub(super) ending: Notify,
    execs: Execs,
    uploads: Uploads,
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
    pub(crate) fn new(id: Arc<str>, number: u32, spec: Spec, counters: Arc<Counters>) -> Arc<Self> {
        let claimed = Instant::now();
        Arc::new(Self {
            id,
            number,
            spec,
            claimed,
            counters,
            created_unix_ns: unix_nanos(),
            life: Mutex::new(Life::Starting),
            changed: Notify::new(),
            ending: Notify::new(),
            execs: Execs::new(claimed),
            uploads: Uploads::default(),
        })
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

    /// Ends the sandbox: every call in it ends with `error` at once, later ones too. Returns
    /// whether it had not ended before.
    pub(crate) fn end(&self, error: CallError) -> bool {
        let mut life = lock(&self.life);
        if matches!(*life, Life::Ended(_) | Life::Gone(_)) {
            return false;
        }
        *life = Life::Ended(error.clone());
        drop(life);
        self.execs.close(&error);
        self.uploads.close();
        self.changed.notify_waiters();
        self.ending.notify_one();
        true
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
        let message = format!("sandbox {:?} is lost: {reason}", &*self.id);
        CallError::new(ErrorCode::SandboxLost, message).with_reason(reason)
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
            Life::Ready(enclosure) => (v1::SandboxState::Ready, Some(Arc::clone(enclosure))),
            Life::Ended(_) | Life::Gone(_) => (v1::SandboxState::Ended, None),
        };
        drop(life);
        let enclosure = enclosure.as_ref();
        let ttl = nanoseconds(self.spec.ttl);
        v1::Sandbox {
            sandbox_id: self.id.to_string(),
            template: self.spec.template.name.clone(),
            state: state.into(),
            launch: v1::Launch::Cold.into(),
            startup_ns: enclosure.map_or(0, |enclosure| nanoseconds(enclosure.startup)),
            limits: Some(self.spec.limits),
            id_range: enclosure.map_or(0, |enclosure| enclosure.ids.count),
            created_unix_ns: self.created_unix_ns,
            expires_unix_ns: self.created_unix_ns.saturating_add(ttl),
            running_execs: u32::try_from(self.execs.running()).unwrap_or(u32::MAX),
            labels: self.spec.labels.clone(),
            init_pid: enclosure.map_or(0, |enclosure| enclosure.init_pid),
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
