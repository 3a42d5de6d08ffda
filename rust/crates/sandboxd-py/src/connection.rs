//! A connection for either driver: an event loop that watches its descriptor, or a thread that
//! blocks. Futures are completed only after every lock is released, because completing one may run
//! Python code that comes back here.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use sandboxd_client::{CallError, ErrorCode, Items, Link, Method, Options, is_stream};

use crate::error::BridgeError;
use crate::replies;
use crate::requests::Request;

/// Longest time without a look at pending signals while a thread blocks. A signal usually ends the
/// wait at once; this is for one that arrives just before it, or in another thread.
const SIGNAL_SLICE: Duration = Duration::from_millis(200);

/// A connection to an agent.
///
/// Its callbacks get the connection: `on_full` when bytes wait for room in the socket, `on_failed`
/// once, when it is of no use any more.
#[pyclass(frozen, module = "sandboxd._native")]
#[derive(Debug)]
pub(crate) struct Connection {
    owner: u32,
    link: Link,
    futures: Mutex<HashMap<u32, Py<PyAny>>>,
    reported: AtomicBool,
    on_full: Option<Py<PyAny>>,
    on_failed: Option<Py<PyAny>>,
}

impl Connection {
    /// Refuses use by a process that was forked from the owner: two readers of one stream would
    /// each see half of it.
    fn guard(&self) -> Result<(), BridgeError> {
        let process = std::process::id();
        if process == self.owner {
            return Ok(());
        }
        let message = format!(
            "connection of process {} was used in process {process}, forked from it: \
             make a new sandbox after the fork",
            self.owner
        );
        Err(CallError::new(ErrorCode::UsedAfterFork, message).into())
    }

    fn futures(&self) -> MutexGuard<'_, HashMap<u32, Py<PyAny>>> {
        // Nothing can panic while it is held but the allocator.
        self.futures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outcome(&self, py: Python<'_>, call: u32, method: Method) -> Option<PyResult<Py<PyAny>>> {
        let outcome = self.link.take_reply(call)?;
        Some(match outcome {
            Ok(body) => replies::reply(py, method, body),
            Err(error) => Err(BridgeError::from(error).into()),
        })
    }

    /// What has arrived of a stream as a list, empty at its end; `None` for nothing yet.
    fn batch(&self, py: Python<'_>, call: u32) -> PyResult<Option<Py<PyAny>>> {
        let Some(method) = self.link.method(call) else {
            return Ok(Some(PyList::empty(py).into_any().unbind()));
        };
        let items = match self.link.take_items(call).map_err(BridgeError::from)? {
            Items::Pending => return Ok(None),
            Items::End => Vec::new(),
            Items::Some(items) => items,
        };
        let items: PyResult<Vec<_>> =
            items.into_iter().map(|body| replies::item(py, method, body)).collect();
        Ok(Some(PyList::new(py, items?)?.into_any().unbind()))
    }

    /// Completes the futures of the calls that have something new.
    fn deliver(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (this, py) = (slf.get(), slf.py());
        for call in this.link.take_ready() {
            let Some(future) = this.futures().remove(&call) else { continue };
            // Its task was cancelled: what has arrived of a stream stays for the next one to ask.
            if is_done(future.bind(py))? {
                continue;
            }
            let outcome = match this.link.method(call) {
                Some(method) if is_stream(method) => this.batch(py, call).transpose(),
                Some(method) => this.outcome(py, call, method),
                None => continue,
            };
            match outcome {
                Some(outcome) => complete(future.bind(py), outcome)?,
                None => drop(this.futures().insert(call, future)),
            }
        }
        this.notify(slf)
    }

    /// Tells the loop what it has to do next, once every future has its outcome.
    fn notify(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        if !self.link.is_failed() {
            return self.ask_for_room(slf);
        }
        if !self.reported.swap(true, Ordering::Relaxed)
            && let Some(on_failed) = &self.on_failed
        {
            on_failed.call1(slf.py(), (slf,))?;
        }
        Ok(())
    }

    /// Has the loop watch for room, if bytes wait for it. A write that failed is not told here: the
    /// socket of a peer that is gone stays readable, so the loop comes and completes the futures of
    /// the other calls, in its own thread.
    fn ask_for_room(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        if let Some(on_full) = &self.on_full
            && self.link.wants_write()
        {
            on_full.call1(slf.py(), (slf,))?;
        }
        Ok(())
    }

    /// Blocks until a call has something to take. The GIL is released meanwhile.
    fn block(&self, py: Python<'_>, call: u32) -> PyResult<()> {
        self.block_until(py, call, None).map(drop)
    }

    /// [`Self::block`], until a moment. Returns whether there is something.
    fn block_until(&self, py: Python<'_>, call: u32, until: Option<Instant>) -> PyResult<bool> {
        self.guard()?;
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let slice = left.map_or(SIGNAL_SLICE, |left| left.min(SIGNAL_SLICE));
            if py.detach(|| self.link.wait(call, slice)).map_err(PyOSError::new_err)? {
                return Ok(true);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }
}

fn is_done(future: &Bound<'_, PyAny>) -> PyResult<bool> {
    future.call_method0(intern!(future.py(), "done"))?.is_truthy()
}

/// Completes an asyncio future.
fn complete(future: &Bound<'_, PyAny>, outcome: PyResult<Py<PyAny>>) -> PyResult<()> {
    let py = future.py();
    match outcome {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error,))?,
    };
    Ok(())
}

#[pymethods]
impl Connection {
    #[new]
    #[pyo3(signature = (path, *, keepalive, greeting, on_full=None, on_failed=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        keepalive: f64,
        greeting: f64,
        on_full: Option<Py<PyAny>>,
        on_failed: Option<Py<PyAny>>,
    ) -> Result<Self, BridgeError> {
        let options = Options {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            keepalive: Duration::from_secs_f64(keepalive),
            greeting: Duration::from_secs_f64(greeting),
        };
        Ok(Self {
            owner: std::process::id(),
            link: py.detach(|| Link::open(&path, options))?,
            futures: Mutex::default(),
            reported: AtomicBool::new(false),
            on_full,
            on_failed,
        })
    }

    /// The descriptor to watch.
    fn fileno(&self) -> i32 {
        self.link.fd()
    }

    /// Whether the connection is of no use any more.
    #[getter]
    fn failed(&self) -> bool {
        self.link.is_failed()
    }

    /// Whether bytes wait for room in the socket.
    #[getter]
    fn wants_write(&self) -> bool {
        self.link.wants_write()
    }

    /// Seconds until a tick is of use; `None` while nothing waits for the agent.
    #[getter]
    fn tick_in(&self) -> Option<f64> {
        let due = self.link.next_tick()?;
        Some(due.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    /// The agent's process; 0 before its greeting.
    #[getter]
    fn agent_pid(&self) -> u32 {
        self.link.agent_pid()
    }

    /// Begins a call and returns its number. `future` gets the reply of a unary call.
    #[pyo3(signature = (request, future=None))]
    fn submit(
        slf: &Bound<'_, Self>,
        request: &Request,
        future: Option<Py<PyAny>>,
    ) -> PyResult<u32> {
        let this = slf.get();
        this.guard()?;
        let call = this.link.submit(&request.0).map_err(BridgeError::from)?;
        if let Some(future) = future {
            this.futures().insert(call, future);
        }
        if this.link.is_failed() {
            Self::deliver(slf)?
        } else {
            this.notify(slf)?
        }
        Ok(call)
    }

    /// What has arrived of a stream, empty at its end. Nothing yet: `None`, and `future` gets it.
    fn receive(slf: &Bound<'_, Self>, call: u32, future: Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let this = slf.get();
        this.guard()?;
        let batch = this.batch(slf.py(), call)?;
        if batch.is_none() {
            this.futures().insert(call, future);
        }
        this.ask_for_room(slf)?;
        Ok(batch)
    }

    /// Blocks until the reply of a unary call.
    fn wait(&self, py: Python<'_>, call: u32) -> PyResult<Py<PyAny>> {
        self.block(py, call)?;
        let gone = || CallError::new(ErrorCode::Internal, format!("call {call} is forgotten"));
        let method = self.link.method(call).ok_or_else(gone).map_err(BridgeError::from)?;
        self.outcome(py, call, method).ok_or_else(gone).map_err(BridgeError::from)?
    }

    /// Blocks until something arrives of a stream; empty at its end. `None` after so many seconds.
    #[pyo3(signature = (call, seconds=None))]
    fn wait_items(
        &self,
        py: Python<'_>,
        call: u32,
        seconds: Option<f64>,
    ) -> PyResult<Option<Py<PyAny>>> {
        // A time that is too long for a clock is none.
        let until = seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok())
            .and_then(|time| Instant::now().checked_add(time));
        while self.block_until(py, call, until)? {
            if let Some(batch) = self.batch(py, call)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Forgets a call; an exec is ended by it, a stream stopped.
    fn cancel(slf: &Bound<'_, Self>, call: u32) -> PyResult<()> {
        let this = slf.get();
        drop(this.futures().remove(&call));
        // A forked child forgets its parent's calls silently: they are not its to end.
        if this.guard().is_ok() {
            this.link.cancel(call);
            this.ask_for_room(slf)?;
        }
        Ok(())
    }

    /// Forgets a call and lets it happen.
    fn forget(&self, call: u32) {
        drop(self.futures().remove(&call));
        self.link.forget(call);
    }

    /// To be called by the loop when the descriptor is readable.
    fn on_readable(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().guard()?;
        slf.get().link.on_readable();
        Self::deliver(slf)
    }

    /// To be called by the loop when the descriptor is writable; whether it is enough now.
    fn on_writable(slf: &Bound<'_, Self>) -> PyResult<bool> {
        slf.get().guard()?;
        slf.get().link.on_writable();
        Self::deliver(slf)?;
        Ok(!slf.get().link.wants_write())
    }

    /// To be called every keepalive interval while calls wait.
    fn on_tick(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().guard()?;
        slf.get().link.on_tick();
        Self::deliver(slf)
    }

    /// Ends the connection and forgets its calls: nobody can wait for them any more, since the loop
    /// of their futures is closed.
    fn close(&self) {
        drop(std::mem::take(&mut *self.futures()));
        self.reported.store(true, Ordering::Relaxed);
        self.link.close();
    }
}
