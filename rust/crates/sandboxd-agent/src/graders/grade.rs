//! The one exec of a grader's box, and who waits for it.

use std::sync::Arc;

use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::sync::{RwLock, RwLockReadGuard};

use super::box_beside::BoxBeside;
use crate::agent::{Agent, Host};
use crate::call::Answer;
use crate::capabilities::Feature;
use crate::exec::{self, Entered, Entry, Exec, Mode};
use crate::sandboxes::{Enclosure, Sandbox};

/// Lets either commands of a sandbox start, or one grader run. They come in turn: a command that is
/// started while a grader runs waits for its end, and so does another grader.
#[derive(Debug, Default)]
pub(crate) struct Gate(RwLock<()>);

impl Gate {
    /// Waits for a grader that runs, and keeps the next one waiting until the guard is dropped.
    pub(crate) async fn pass(&self) -> RwLockReadGuard<'_, ()> {
        self.0.read().await
    }
}

/// An exec that is to be a grader.
struct Grading {
    sandbox: Arc<Sandbox>,
    enclosure: Arc<Enclosure>,
    host: Arc<Host>,
    entry: Entry,
    command: v1::Command,
    mode: Mode,
}

impl Agent {
    /// Begins a grader, or finds the exec that was started with the same id. Says whether it is new. It
    /// goes on whether anybody waits for it or not.
    ///
    /// # Errors
    ///
    /// `unsupported`, with what is missing; `exec_conflict` when the id names another command.
    pub(crate) fn begin_grader(
        &self,
        sandbox: Arc<Sandbox>,
        enclosure: Arc<Enclosure>,
        exec_id: &str,
        command: v1::Command,
        mode: Mode,
    ) -> Answer<(Arc<Exec>, bool)> {
        let host = Arc::clone(self.host());
        host.capabilities.require(Feature::Grader)?;
        let entry = match exec::enter(&sandbox, exec_id, &command, &mode, &host.space)? {
            Entered::New(entry) => entry,
            Entered::Known(exec) => return Ok((exec, false)),
        };
        let exec = Arc::clone(&entry.exec);
        let grading = Grading { sandbox, enclosure, host: Arc::clone(&host), entry, command, mode };
        host.keep(grading.run())?;
        Ok((exec, true))
    }
}

impl Grading {
    async fn run(self) {
        let sandbox = Arc::clone(&self.sandbox);
        let _alone = sandbox.gate.0.write().await;
        let Self { sandbox, enclosure, host, mut entry, command, mode } = self;
        let exec = Arc::clone(&entry.exec);
        let made = match sandbox.ended_with() {
            Some(error) => Err(error),
            None => BoxBeside::make(&sandbox, &enclosure, &host).await,
        };
        let beside = match made {
            Ok(beside) => beside,
            Err(error) => return exec::abandon(&sandbox, &exec, error),
        };
        // Whoever was before it at the gate has come and gone.
        entry.begin_alone(&sandbox);
        let started = beside
            .sandbox
            .execs()
            .adopt(&exec)
            .and_then(|()| exec::begin(&sandbox, &beside.enclosure, &entry, &command, &mode));
        match started {
            Ok(driver) => driver.run().await,
            Err(error) => exec::abandon(&sandbox, &exec, of_grader(&sandbox, error)),
        }
        beside.end().await;
    }
}

/// The error of a grader that could not be begun: its box may be lost where its sandbox is not.
fn of_grader(sandbox: &Sandbox, error: CallError) -> CallError {
    match sandbox.ended_with() {
        None if error.code == ErrorCode::SandboxLost => sandbox.lost_grader(&error.reason),
        _ => error,
    }
}
