//! Replies as small objects; bytes become Python's only when they are asked for.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use sandboxd_client::{CallError, ErrorCode, Method};
use sandboxd_proto::v1::{self, exec_attach_response::Event};

use crate::error::BridgeError;

#[expect(clippy::cast_precision_loss, reason = "seconds for people: 53 bits are plenty")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn decode<M: Message + Default>(body: Bytes) -> Result<M, BridgeError> {
    M::decode(body).map_err(|error| malformed(error).into())
}

fn malformed(detail: impl std::fmt::Display) -> CallError {
    let message = format!("a reply of the agent cannot be read: {detail}");
    CallError::new(ErrorCode::Internal, message).maybe_run(true)
}

fn present<T>(field: Option<T>, name: &str) -> Result<T, BridgeError> {
    field.ok_or_else(|| malformed(format!("{name} is missing")).into())
}

/// How an exec ended.
#[pyclass(frozen, get_all, module = "sandboxd._native")]
#[derive(Debug, Clone)]
pub(crate) struct ExecEnd {
    cause: &'static str,
    exit_code: Option<u32>,
    signal: Option<u32>,
    duration: f64,
    cpu_time: f64,
    peak_memory: u64,
    limit: Option<u64>,
    limit_peak: Option<u64>,
    stdout_total_bytes: u64,
    stderr_total_bytes: u64,
    io_read_bytes: Option<u64>,
    io_write_bytes: Option<u64>,
    stdout_sha256: Option<String>,
    stderr_sha256: Option<String>,
}

/// A hash in hexadecimal; `None` if it was not computed.
fn hexadecimal(hash: &[u8]) -> Option<String> {
    (!hash.is_empty()).then(|| hash.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl ExecEnd {
    fn new(end: &v1::ExecEnd) -> Result<Self, BridgeError> {
        let cause = match end.cause() {
            // Nothing is invented: without a cause there is no result.
            v1::Cause::Unspecified => return Err(malformed("cause is missing").into()),
            v1::Cause::Exited => "exited",
            v1::Cause::Signaled => "signaled",
            v1::Cause::Timeout => "timeout",
            v1::Cause::CpuLimit => "cpu_limit",
            v1::Cause::MemoryLimit => "memory_limit",
            v1::Cause::PidsLimit => "pids_limit",
            v1::Cause::DiskLimit => "disk_limit",
            v1::Cause::OutputLimit => "output_limit",
            v1::Cause::Canceled => "canceled",
            v1::Cause::IdleOutputTimeout => "idle_output_timeout",
        };
        Ok(Self {
            cause,
            exit_code: end.exit_code,
            signal: end.signal,
            duration: seconds(end.duration_ns),
            cpu_time: seconds(end.cpu_time_ns),
            peak_memory: end.peak_memory_bytes,
            limit: end.limit,
            limit_peak: end.limit_peak,
            stdout_total_bytes: end.stdout_total_bytes,
            stderr_total_bytes: end.stderr_total_bytes,
            io_read_bytes: end.io_read_bytes,
            io_write_bytes: end.io_write_bytes,
            stdout_sha256: hexadecimal(&end.stdout_sha256),
            stderr_sha256: hexadecimal(&end.stderr_sha256),
        })
    }
}

/// Result of a run.
#[pyclass(frozen, module = "sandboxd._native")]
#[derive(Debug)]
pub(crate) struct RunReply {
    end: ExecEnd,
    stdout: Bytes,
    stderr: Bytes,
    #[pyo3(get)]
    stdout_head_bytes: Option<u64>,
    #[pyo3(get)]
    stderr_head_bytes: Option<u64>,
}

#[pymethods]
impl RunReply {
    #[getter]
    fn end(&self) -> ExecEnd {
        self.end.clone()
    }

    #[getter]
    fn stdout<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.stdout)
    }

    #[getter]
    fn stderr<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.stderr)
    }
}

/// An exec in a list.
#[pyclass(frozen, get_all, module = "sandboxd._native")]
#[derive(Debug)]
pub(crate) struct ExecSummary {
    exec_id: String,
    running: bool,
    pid: u32,
    started_at: f64,
    end: Option<ExecEnd>,
    stdin_offset: Option<u64>,
    stdin_ended: bool,
}

impl ExecSummary {
    fn new(exec: v1::ExecSummary) -> Result<Self, BridgeError> {
        Ok(Self {
            end: exec.end.as_ref().map(ExecEnd::new).transpose()?,
            exec_id: exec.exec_id,
            running: exec.running,
            pid: exec.pid,
            started_at: seconds(exec.started_unix_ns),
            stdin_offset: exec.stdin_offset,
            stdin_ended: exec.stdin_ended,
        })
    }
}

type LimitsTuple = (Option<u64>, Option<u32>, Option<u32>, Option<u64>, Option<u64>);

/// A sandbox as its agent sees it.
#[pyclass(frozen, get_all, module = "sandboxd._native")]
#[derive(Debug)]
pub(crate) struct SandboxRecord {
    sandbox_id: String,
    template: String,
    state: &'static str,
    launch: &'static str,
    startup: f64,
    limits: LimitsTuple,
    id_range: u32,
    created_at: f64,
    expires_at: f64,
    running_execs: u32,
    labels: BTreeMap<String, String>,
    init_pid: u32,
}

impl From<v1::Sandbox> for SandboxRecord {
    fn from(sandbox: v1::Sandbox) -> Self {
        let limits = sandbox.limits.unwrap_or_default();
        Self {
            state: match sandbox.state() {
                v1::SandboxState::Unspecified => "unspecified",
                v1::SandboxState::Starting => "starting",
                v1::SandboxState::Ready => "ready",
                v1::SandboxState::Ended => "ended",
                v1::SandboxState::Warm => "warm",
            },
            launch: match sandbox.launch() {
                v1::Launch::Unspecified => "unspecified",
                v1::Launch::Warm => "warm",
                v1::Launch::Cold => "cold",
            },
            sandbox_id: sandbox.sandbox_id,
            template: sandbox.template,
            startup: seconds(sandbox.startup_ns),
            limits: (
                limits.memory_bytes,
                limits.pids,
                limits.cpu_millis,
                limits.disk_bytes,
                limits.output_bytes,
            ),
            id_range: sandbox.id_range,
            created_at: seconds(sandbox.created_unix_ns),
            expires_at: seconds(sandbox.expires_unix_ns),
            running_execs: sandbox.running_execs,
            labels: sandbox.labels,
            init_pid: sandbox.init_pid,
        }
    }
}

/// What an agent is and what its host can enforce.
#[pyclass(frozen, get_all, module = "sandboxd._native")]
#[derive(Debug)]
pub(crate) struct AgentInfo {
    version: String,
    pid: u32,
    capabilities: Vec<(String, bool, String)>,
    sandboxes: u32,
    templates: Vec<String>,
    counters: Counters,
}

/// Totals since an agent started.
#[pyclass(frozen, get_all, module = "sandboxd._native")]
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    sandboxes_claimed: u64,
    sandboxes_lost: u64,
    execs_started: u64,
    execs_ended: BTreeMap<String, u64>,
    output_bytes: u64,
    spilled_bytes: u64,
    stdin_bytes: u64,
    file_read_bytes: u64,
    file_written_bytes: u64,
    cpu_time: f64,
}

impl From<v1::Counters> for Counters {
    fn from(counters: v1::Counters) -> Self {
        Self {
            sandboxes_claimed: counters.sandboxes_claimed,
            sandboxes_lost: counters.sandboxes_lost,
            execs_started: counters.execs_started,
            execs_ended: counters.execs_ended,
            output_bytes: counters.output_bytes,
            spilled_bytes: counters.spilled_bytes,
            stdin_bytes: counters.stdin_bytes,
            file_read_bytes: counters.file_read_bytes,
            file_written_bytes: counters.file_written_bytes,
            cpu_time: seconds(counters.cpu_time_ns),
        }
    }
}

impl From<v1::SandboxesInfoResponse> for AgentInfo {
    fn from(info: v1::SandboxesInfoResponse) -> Self {
        let capabilities = info.capabilities.into_iter();
        Self {
            version: info.version,
            pid: info.pid,
            capabilities: capabilities.map(|it| (it.name, it.available, it.detail)).collect(),
            sandboxes: info.sandboxes,
            templates: info.templates,
            counters: info.counters.unwrap_or_default().into(),
        }
    }
}

/// A file as `stat` sees it.
#[pyclass(frozen, module = "sandboxd._native")]
#[derive(Debug)]
pub(crate) struct FileRecord(v1::FileEntry);

#[pymethods]
impl FileRecord {
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.name)
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind() {
            v1::FileKind::File => "file",
            v1::FileKind::Directory => "directory",
            v1::FileKind::Symlink => "symlink",
            v1::FileKind::Other | v1::FileKind::Unspecified => "other",
        }
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    #[getter]
    fn mode(&self) -> u32 {
        self.0.mode
    }

    #[getter]
    fn uid(&self) -> u32 {
        self.0.uid
    }

    #[getter]
    fn gid(&self) -> u32 {
        self.0.gid
    }

    #[getter]
    #[expect(clippy::cast_precision_loss, reason = "a time for people")]
    fn modified_at(&self) -> f64 {
        self.0.modified_unix_ns as f64 / 1e9
    }

    #[getter]
    fn target<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.target)
    }
}

/// The Python object for the reply of a unary call.
pub(crate) fn reply(py: Python<'_>, method: Method, body: Bytes) -> PyResult<Py<PyAny>> {
    Ok(match method {
        Method::ExecRun => {
            let reply: v1::ExecRunResponse = decode(body)?;
            let end = ExecEnd::new(&present(reply.end, "end")?)?;
            Py::new(
                py,
                RunReply {
                    end,
                    stdout: reply.stdout,
                    stderr: reply.stderr,
                    stdout_head_bytes: reply.stdout_head_bytes,
                    stderr_head_bytes: reply.stderr_head_bytes,
                },
            )?
            .into_any()
        }
        Method::ExecStart => {
            let reply: v1::ExecStartResponse = decode(body)?;
            (reply.pid, reply.started).into_pyobject(py)?.into_any().unbind()
        }
        Method::ExecWriteStdin => {
            let reply: v1::ExecWriteStdinResponse = decode(body)?;
            reply.offset.into_pyobject(py)?.into_any().unbind()
        }
        Method::ExecSignal => flag(py, decode::<v1::ExecSignalResponse>(body)?.delivered),
        Method::ExecResize => flag(py, decode::<v1::ExecResizeResponse>(body)?.resized),
        Method::ExecList => {
            let reply: v1::ExecListResponse = decode(body)?;
            let execs: Result<Vec<_>, _> = reply.execs.into_iter().map(ExecSummary::new).collect();
            PyList::new(py, execs?)?.into_any().unbind()
        }
        Method::SandboxesInfo => {
            let reply: v1::SandboxesInfoResponse = decode(body)?;
            Py::new(py, AgentInfo::from(reply))?.into_any()
        }
        Method::SandboxesList => {
            let reply: v1::SandboxesListResponse = decode(body)?;
            let sandboxes = reply.sandboxes.into_iter().map(SandboxRecord::from);
            PyList::new(py, sandboxes.collect::<Vec<_>>())?.into_any().unbind()
        }
        Method::SandboxesClaim => {
            let reply: v1::SandboxesClaimResponse = decode(body)?;
            let record = SandboxRecord::from(present(reply.sandbox, "sandbox")?);
            Py::new(py, record)?.into_any()
        }
        Method::SandboxesRelease => {
            flag(py, decode::<v1::SandboxesReleaseResponse>(body)?.released)
        }
        Method::FilesWrite => {
            let reply: v1::FilesWriteResponse = decode(body)?;
            let sha256 = PyBytes::new(py, &reply.sha256);
            (reply.size, sha256).into_pyobject(py)?.into_any().unbind()
        }
        Method::FilesStat => {
            let reply: v1::FilesStatResponse = decode(body)?;
            Py::new(py, FileRecord(present(reply.entry, "entry")?))?.into_any()
        }
        Method::FilesList => {
            let reply: v1::FilesListResponse = decode(body)?;
            let entries = reply.entries.into_iter().map(FileRecord);
            PyList::new(py, entries.collect::<Vec<_>>())?.into_any().unbind()
        }
        Method::FilesExtract => {
            let reply: v1::FilesExtractResponse = decode(body)?;
            (reply.size, reply.entries).into_pyobject(py)?.into_any().unbind()
        }
        Method::FilesRemove | Method::FilesMakeDir | Method::FilesMove | Method::FilesAbandon => {
            py.None()
        }
        // The control plane's, over gRPC.
        Method::SandboxesWarm => py.None(),
        // Streams have items; a reply to one says only that it is over.
        Method::ExecAttach | Method::FilesRead | Method::FilesArchive | Method::FilesWatch => {
            py.None()
        }
    })
}

fn flag(py: Python<'_>, value: bool) -> Py<PyAny> {
    pyo3::types::PyBool::new(py, value).to_owned().into_any().unbind()
}

/// The Python object for one item of a stream: `(bytes of a file, what is known of it)`, `(bytes of
/// an archive, its end)`, changes, `(stream, offset, data)`, or the end of an exec.
pub(crate) fn item(py: Python<'_>, method: Method, body: Bytes) -> PyResult<Py<PyAny>> {
    match method {
        Method::FilesRead => {
            let part: v1::FilesReadResponse = decode(body)?;
            let known = part
                .offset
                .map(|offset| (offset, part.size.unwrap_or(0), PyBytes::new(py, &part.version)));
            let data = PyBytes::new(py, &part.data);
            return Ok((data, known).into_pyobject(py)?.into_any().unbind());
        }
        Method::FilesArchive => {
            let part: v1::FilesArchiveResponse = decode(body)?;
            let data = PyBytes::new(py, &part.data);
            let end = part.entries.map(|entries| (entries, part.skipped.unwrap_or(0)));
            return Ok((data, end).into_pyobject(py)?.into_any().unbind());
        }
        Method::FilesWatch => {
            let part: v1::FilesWatchResponse = decode(body)?;
            let events = part.events.iter().map(|event| {
                let path = PyBytes::new(py, &event.path);
                (event_kind(event.kind()), path, event.is_directory, event.cookie)
            });
            return Ok(PyList::new(py, events.collect::<Vec<_>>())?.into_any().unbind());
        }
        _ => {}
    }
    let response: v1::ExecAttachResponse = decode(body)?;
    let (stream, output) = match present(response.event, "event")? {
        Event::Stdout(output) => ("stdout", output),
        Event::Stderr(output) => ("stderr", output),
        Event::End(end) => return Ok(Py::new(py, ExecEnd::new(&end)?)?.into_any()),
    };
    let data = PyBytes::new(py, &output.data);
    Ok((stream, output.offset, data).into_pyobject(py)?.into_any().unbind())
}

const fn event_kind(kind: v1::FileEventKind) -> &'static str {
    match kind {
        v1::FileEventKind::Created => "created",
        v1::FileEventKind::Modified => "modified",
        v1::FileEventKind::Closed => "closed",
        v1::FileEventKind::Attributes => "attributes",
        v1::FileEventKind::Deleted => "deleted",
        v1::FileEventKind::MovedFrom => "moved_from",
        v1::FileEventKind::MovedTo => "moved_to",
        v1::FileEventKind::Gone => "gone",
        // A kind that a newer agent may tell: something is missed, and that is said.
        v1::FileEventKind::Overflow | v1::FileEventKind::Unspecified => "overflow",
    }
}
