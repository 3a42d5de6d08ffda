//! The box of one grader, from the freezing of its sandbox until both are as if it had never been.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sandboxd_linux::protocol::ToInit;
use sandboxd_proto::{CallError, ErrorCode};

use super::view::View;
use crate::agent::Host;
use crate::call::Answer;
use crate::sandboxes::{Enclosure, Sandbox, keep_grader};

/// How long the processes of a sandbox may take to stop: a thousand of them on a busy machine. One that
/// waits for a disk stops when that has answered.
const FREEZE_PATIENCE: Duration = Duration::from_secs(5);

/// How often they are looked at.
const FREEZE_LOOK: Duration = Duration::from_micros(500);

/// How long init may take to start the programs that it was told to before.
const SYNC_PATIENCE: Duration = Duration::from_secs(5);

/// A box that stands, and the sandbox it is beside, which is frozen.
#[derive(Debug)]
pub(super) struct BoxBeside {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) enclosure: Arc<Enclosure>,
    /// Thaws when it is dropped, after the box has gone.
    _frozen: Frozen,
}

impl BoxBeside {
    /// Freezes the sandbox and makes the box. No command may be started in the sandbox from before this
    /// until the box is gone.
    ///
    /// # Errors
    ///
    /// Why there can be none. Nothing is frozen then, and nothing is left.
    pub(super) async fn make(
        sandbox: &Arc<Sandbox>,
        enclosure: &Arc<Enclosure>,
        host: &Arc<Host>,
    ) -> Answer<Self> {
        let template = host.templates.root(&sandbox.spec.template, host.cpus.seen(None))?;
        let protected = sandbox.protected(&template)?;
        let view = View::new(protected, Arc::clone(enclosure)).ok_or_else(no_copy)?;
        settle(sandbox, enclosure).await?;
        let frozen = Frozen::freeze(enclosure).await?;
        let number = host.next_number.fetch_add(1, Ordering::Relaxed);
        let beside = Sandbox::beside(sandbox, number);
        host.keep(keep_grader(Arc::clone(&beside), Arc::clone(host), view))?;
        match beside.ready().await {
            Ok(enclosure) => Ok(Self { sandbox: beside, enclosure, _frozen: frozen }),
            Err(error) => {
                beside.gone().await;
                drop(frozen);
                let message = format!("the grader's box cannot be made: {}", error.message);
                Err(CallError::new(ErrorCode::ExecFailed, message).with_reason("grader"))
            }
        }
    }

    /// Ends everything in the box, waits until nothing of it runs, and thaws the sandbox.
    pub(super) async fn end(self) {
        let error = CallError::new(ErrorCode::SandboxClosed, "the grader has ended");
        self.sandbox.end(error);
        self.sandbox.gone().await;
    }
}

/// Waits until init has started what it was told to start: a program that is frozen on its way into
/// being one would hold init up.
async fn settle(sandbox: &Sandbox, enclosure: &Enclosure) -> Answer<()> {
    let number = sandbox.next_sync();
    let sent = enclosure.init.send(&ToInit::Sync { number }.encode(), &[]);
    let synced = async { sent.is_ok() && sandbox.synced(number).await };
    match tokio::time::timeout(SYNC_PATIENCE, synced).await {
        Ok(true) => Ok(()),
        _ => Err(sandbox.ended_with().unwrap_or_else(|| {
            let message = "the sandbox's init does not come to start what it was told to start";
            CallError::new(ErrorCode::ExecFailed, message).with_reason("freeze")
        })),
    }
}

/// A frozen sandbox.
#[derive(Debug)]
struct Frozen(Arc<Enclosure>);

impl Frozen {
    async fn freeze(enclosure: &Arc<Enclosure>) -> Answer<Self> {
        let failed = |what: String| {
            let message = format!("the processes of the sandbox cannot be stopped: {what}");
            CallError::new(ErrorCode::ExecFailed, message).with_reason("freeze")
        };
        // From here on, so that what is frozen in part is thawed.
        let frozen = Self(Arc::clone(enclosure));
        enclosure.freeze().map_err(|error| failed(error.to_string()))?;
        let deadline = Instant::now() + FREEZE_PATIENCE;
        while !enclosure.is_frozen().map_err(|error| failed(error.to_string()))? {
            if Instant::now() >= deadline {
                let seconds = FREEZE_PATIENCE.as_secs();
                return Err(failed(format!("some still run after {seconds} s")));
            }
            tokio::time::sleep(FREEZE_LOOK).await;
        }
        Ok(frozen)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.0.thaw();
    }
}

fn no_copy() -> CallError {
    let message = "this kernel cannot show the files of one sandbox to another: use Linux 6.15";
    CallError::new(ErrorCode::Unsupported, message)
}
