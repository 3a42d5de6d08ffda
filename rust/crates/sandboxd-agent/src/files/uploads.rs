//! Content that arrives in parts: what a sandbox has of it so far.
//!
//! Invariants: one call at a time works on an upload, the others wait for it; what is kept between
//! two calls is dropped with the sandbox, by [`Uploads::close`], or [`PATIENCE`] after the last
//! part. A finished upload is only its answer, for the client that did not get it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sandboxd_proto::{CallError, ErrorCode, v1};
use tokio::sync::OwnedMutexGuard;
use tokio::task::AbortHandle;

use super::extract::Extraction;
use super::write::Upload;
use crate::call::Answer;
use crate::lock::lock;

/// How long an upload waits for its next part, and a finished one for a client that asks again.
/// Far above the time for which clients try to repair a connection (4 s).
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a part waits for an earlier call of the same upload: one whose connection broke, and
/// which has not noticed yet.
const TURN: Duration = Duration::from_secs(10);

/// Uploads of one sandbox that are not finished. Each holds a descriptor.
const MAX_OPEN: usize = 64;

/// Answers that are kept; the oldest go first.
const MAX_FINISHED: usize = 1_024;

/// Bytes of a name that the client chose.
const MAX_ID: usize = 64;

/// Where content goes.
#[derive(Debug)]
pub(super) enum Sink {
    File(Box<Upload>),
    Archive(Box<Extraction>),
}

/// What became of it.
#[derive(Debug, Clone)]
pub(super) enum Finished {
    File(v1::FilesWriteResponse),
    Archive(v1::FilesExtractResponse),
}

impl Sink {
    /// Bytes that it has taken.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::File(upload) => upload.size(),
            Self::Archive(extraction) => extraction.size(),
        }
    }

    pub(super) fn append(&mut self, chunks: &[Bytes]) -> Answer<()> {
        match self {
            Self::File(upload) => upload.append(chunks),
            Self::Archive(extraction) => extraction.append(chunks),
        }
    }

    /// The answer to a part that is not the last one.
    pub(super) fn progress(&self) -> Finished {
        match self {
            Self::File(upload) => {
                Finished::File(v1::FilesWriteResponse { size: upload.size(), sha256: Bytes::new() })
            }
            Self::Archive(extraction) => Finished::Archive(extraction.progress()),
        }
    }

    pub(super) fn finish(self) -> Answer<Finished> {
        match self {
            Self::File(upload) => upload.finish().map(Finished::File),
            Self::Archive(extraction) => extraction.finish().map(Finished::Archive),
        }
    }
}

/// The uploads of one sandbox. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uploads {
    table: Arc<Mutex<Table>>,
    /// Whose turn it is to put a new file in the place of an old one.
    pub(super) replacing: Arc<Mutex<()>>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<String, Entry>,
    /// Names of the finished ones, oldest first.
    finished: VecDeque<(Instant, String)>,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    state: Arc<tokio::sync::Mutex<State>>,
    /// Drops it when its next part does not come.
    timer: Option<AbortHandle>,
}

#[derive(Debug)]
pub(super) enum State {
    /// Nothing has arrived.
    New,
    /// Between two parts.
    Waiting(Sink),
    /// With a call; or that call was dropped in the middle.
    Taken,
    Finished(Finished),
}

/// The right to work on one upload. Unless it is kept or finished, the upload is forgotten.
#[derive(Debug)]
pub(super) struct Turn {
    uploads: Uploads,
    id: String,
    guard: OwnedMutexGuard<State>,
    settled: bool,
}

impl Uploads {
    /// Waits for the turn to work on the upload `id`, which begins with it if it is unknown.
    pub(super) async fn turn(&self, id: &str) -> Answer<Turn> {
        if id.len() > MAX_ID {
            let message = format!("upload_id has {} bytes, above the limit of {MAX_ID}", id.len());
            return Err(CallError::new(ErrorCode::InvalidArgument, message));
        }
        let state = lock(&self.table).enter(id)?;
        let Ok(guard) = tokio::time::timeout(TURN, state.lock_owned()).await else {
            let message = format!("upload {id:?} is still busy with an earlier part");
            return Err(CallError::new(ErrorCode::FileFailed, message).with_reason("upload_busy"));
        };
        Ok(Turn { uploads: self.clone(), id: id.to_owned(), guard, settled: false })
    }

    /// Forgets an upload that is not finished.
    pub(super) fn abandon(&self, id: &str) {
        let mut table = lock(&self.table);
        let is_finished = table.finished.iter().any(|(_, finished)| finished == id);
        let entry = if is_finished { None } else { table.entries.remove(id) };
        drop(table);
        release(entry);
    }

    /// Forgets everything, and takes nothing more.
    pub(crate) fn close(&self) {
        let mut table = lock(&self.table);
        table.closed = true;
        table.finished.clear();
        let entries = std::mem::take(&mut table.entries);
        drop(table);
        release(entries.into_values());
    }

    fn forget(&self, id: &str) {
        let entry = lock(&self.table).entries.remove(id);
        release(entry);
    }
}

impl Table {
    fn enter(&mut self, id: &str) -> Answer<Arc<tokio::sync::Mutex<State>>> {
        self.sweep();
        if let Some(entry) = self.entries.get_mut(id) {
            if let Some(timer) = entry.timer.take() {
                timer.abort();
            }
            return Ok(Arc::clone(&entry.state));
        }
        if self.entries.len() - self.finished.len() >= MAX_OPEN {
            let message = format!(
                "sandbox has {MAX_OPEN} uploads that are not finished: finish or abandon some"
            );
            return Err(CallError::new(ErrorCode::ResourceExhausted, message));
        }
        let state = Arc::new(tokio::sync::Mutex::new(State::New));
        self.entries.insert(id.to_owned(), Entry { state: Arc::clone(&state), timer: None });
        Ok(state)
    }

    /// Forgets answers that nobody asked for again.
    fn sweep(&mut self) {
        while let Some((at, _)) = self.finished.front()
            && (self.finished.len() > MAX_FINISHED || at.elapsed() > PATIENCE)
        {
            let (_, id) = self.finished.pop_front().unwrap_or((Instant::now(), String::new()));
            self.entries.remove(&id);
        }
    }
}

impl Turn {
    /// What there is of the upload. It counts as lost until it is kept or finished.
    pub(super) fn take(&mut self) -> State {
        match std::mem::replace(&mut *self.guard, State::Taken) {
            State::Finished(answer) => {
                *self.guard = State::Finished(answer.clone());
                self.settled = true;
                State::Finished(answer)
            }
            state => state,
        }
    }

    /// Waits for the next part, or the first one.
    pub(super) fn keep(mut self, sink: Option<Sink>) {
        let mut table = lock(&self.uploads.table);
        let kept = !table.closed;
        if kept && let Some(entry) = table.entries.get_mut(&self.id) {
            self.settled = true;
            *self.guard = sink.map_or(State::New, State::Waiting);
            let timer = forget_later(Arc::downgrade(&self.uploads.table), self.id.clone());
            entry.timer = Some(tokio::spawn(timer).abort_handle());
            drop(table);
        } else {
            drop(table);
            drop_elsewhere(sink);
        }
    }

    /// Keeps the answer for a client that asks again.
    pub(super) fn finish(mut self, answer: Finished) {
        self.settled = true;
        *self.guard = State::Finished(answer);
        let mut table = lock(&self.uploads.table);
        if table.entries.contains_key(&self.id) {
            let id = self.id.clone();
            table.finished.push_back((Instant::now(), id));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.settled {
            self.uploads.forget(&self.id);
        }
    }
}

async fn forget_later(table: Weak<Mutex<Table>>, id: String) {
    tokio::time::sleep(PATIENCE).await;
    let Some(table) = table.upgrade() else { return };
    let entry = lock(&table).entries.remove(&id);
    release(entry);
}

fn release(entries: impl IntoIterator<Item = Entry>) {
    for entry in entries {
        if let Some(timer) = &entry.timer {
            timer.abort();
        }
        drop_elsewhere(entry);
    }
}

/// Drops something that may hold a large file, whose end takes the kernel its time.
fn drop_elsewhere<T: Send + 'static>(value: T) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn_blocking(move || drop(value));
    }
}
