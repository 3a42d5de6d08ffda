//! The execs of one sandbox: by id for callers, by number for init's reports, and when there was
//! last one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use sandboxd_linux::protocol::MAX_EXECS;
use sandboxd_proto::CallError;

use super::entry::{Exec, Report};
use super::table::{ExecTable, Find, Fingerprint, Size, Start};
use crate::lock::lock;

#[derive(Debug)]
pub(crate) struct Execs {
    inner: Mutex<Inner>,
    next_number: AtomicU32,
}

#[derive(Debug)]
struct Inner {
    table: ExecTable<Arc<Exec>>,
    running: HashMap<u32, Arc<Exec>>,
    /// The last call, or the last end of an exec.
    active_at: Instant,
    /// Why no more can start.
    closed: Option<CallError>,
}

impl Execs {
    pub(crate) fn new(now: Instant) -> Self {
        let inner = Inner {
            table: ExecTable::new(MAX_EXECS),
            running: HashMap::new(),
            active_at: now,
            closed: None,
        };
        Self { inner: Mutex::new(inner), next_number: AtomicU32::new(0) }
    }

    /// A number that no running exec has.
    pub(crate) fn next_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Enters `exec` unless its id is taken. Also says how many others run.
    ///
    /// # Errors
    ///
    /// If the sandbox has ended.
    pub(crate) fn start(
        &self,
        fingerprint: Fingerprint,
        exec: &Arc<Exec>,
    ) -> Result<(Start<Arc<Exec>>, usize), CallError> {
        let mut inner = lock(&self.inner);
        if let Some(error) = &inner.closed {
            return Err(error.clone());
        }
        let others = inner.running.len();
        let start = inner.table.start(&exec.id, fingerprint, Arc::clone(exec));
        if matches!(start, Start::New) {
            inner.running.insert(exec.number, Arc::clone(exec));
        }
        Ok((start, others))
    }

    /// Takes in an exec of another sandbox, whose init's reports come here.
    ///
    /// # Errors
    ///
    /// If this one has ended.
    pub(crate) fn adopt(&self, exec: &Arc<Exec>) -> Result<(), CallError> {
        let mut inner = lock(&self.inner);
        if let Some(error) = &inner.closed {
            return Err(error.clone());
        }
        inner.running.insert(exec.number, Arc::clone(exec));
        Ok(())
    }

    /// Forgets one that never ran.
    pub(crate) fn withdraw(&self, exec: &Exec) {
        let mut inner = lock(&self.inner);
        inner.table.withdraw(&exec.id);
        inner.running.remove(&exec.number);
    }

    /// Notes an end, and how much output stays. Returns what gives way.
    pub(crate) fn finish(&self, exec: &Exec, kept: Size, now: Instant) -> Vec<Arc<Exec>> {
        let mut inner = lock(&self.inner);
        inner.running.remove(&exec.number);
        inner.active_at = now;
        inner.table.finish(&exec.id, kept, now)
    }

    pub(crate) fn prune(&self, now: Instant) -> Vec<Arc<Exec>> {
        lock(&self.inner).table.prune(now)
    }

    pub(crate) fn find(&self, id: &str) -> Find<Arc<Exec>> {
        lock(&self.inner).table.find(id)
    }

    pub(crate) fn running(&self) -> usize {
        lock(&self.inner).running.len()
    }

    /// How many were ever entered: whoever finds it unchanged knows that no other began meanwhile.
    pub(crate) fn starts(&self) -> u64 {
        lock(&self.inner).table.starts()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Exec>> {
        lock(&self.inner).table.iter().map(|(_, exec)| Arc::clone(exec)).collect()
    }

    /// Notes a call.
    pub(crate) fn touch(&self, now: Instant) {
        lock(&self.inner).active_at = now;
    }

    /// When the sandbox was last in use; `None` while an exec runs.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let inner = lock(&self.inner);
        inner.running.is_empty().then_some(inner.active_at)
    }

    pub(crate) fn set_started(&self, number: u32, pid: u32) {
        if let Some(exec) = self.numbered(number) {
            exec.set_started(pid);
        }
    }

    pub(crate) fn set_report(&self, number: u32, report: Report) {
        if let Some(exec) = self.numbered(number) {
            exec.set_report(report);
        }
    }

    /// Refuses new execs with this error.
    pub(crate) fn close(&self, error: &CallError) {
        lock(&self.inner).closed = Some(error.clone());
    }

    /// Ends every exec with this error.
    pub(crate) fn lose(&self, error: &CallError) {
        let inner = lock(&self.inner);
        inner.running.values().for_each(|exec| exec.lose(error.clone()));
    }

    fn numbered(&self, number: u32) -> Option<Arc<Exec>> {
        lock(&self.inner).running.get(&number).cloned()
    }
}
