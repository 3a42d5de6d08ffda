//! Requests, built from Python arguments that `client/_validate.py` has checked.

use std::collections::BTreeMap;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use sandboxd_client::Request as Call;
use sandboxd_proto::v1;

/// One call, ready to be sent on any connection.
#[pyclass(frozen, module = "sandboxd._native")]
#[derive(Debug)]
pub(crate) struct Request(pub(crate) Call);

#[pymethods]
impl Request {
    /// Whether sending it twice has the effect of sending it once.
    #[getter]
    fn repeatable(&self) -> bool {
        self.0.is_repeatable()
    }
}

/// A shell line, or program and arguments.
#[derive(FromPyObject)]
pub(crate) enum CommandArgument {
    Shell(PyBackedBytes),
    Argv(Vec<PyBackedBytes>),
}

type Environment = Vec<(PyBackedBytes, PyBackedBytes)>;

fn copy(bytes: &PyBackedBytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// Limits of time: wall clock, silence, processors; each in nanoseconds.
type Times = (Option<u64>, Option<u64>, Option<u64>);

/// Rows and columns of a terminal.
type Terminal = Option<(u32, u32)>;

fn command(
    command: CommandArgument,
    env: &Environment,
    cwd: &PyBackedBytes,
    user: String,
    (timeout_ns, idle_output_timeout_ns, cpu_time_limit_ns): Times,
    pty: Terminal,
    grader: bool,
) -> v1::Command {
    let (argv, shell) = match command {
        // A shell line may be megabytes long: it is not copied.
        CommandArgument::Shell(line) => (Vec::new(), Bytes::from_owner(line)),
        CommandArgument::Argv(argv) => (argv.iter().map(copy).collect(), Bytes::new()),
    };
    let env = env
        .iter()
        .map(|(name, value)| v1::ExecEnvVar { name: copy(name), value: copy(value) })
        .collect();
    v1::Command {
        argv,
        shell,
        env,
        cwd: copy(cwd),
        user,
        timeout_ns,
        idle_output_timeout_ns,
        cpu_time_limit_ns,
        pty: pty.map(|(rows, columns)| v1::Pty { rows, columns }),
        grader,
    }
}

#[pyfunction]
#[pyo3(signature = (sandbox_id, exec_id, command, env, cwd, user, times, pty, grader, stdin, max_output_bytes))]
#[expect(clippy::too_many_arguments, reason = "one per field of the message")]
pub(crate) fn run_request(
    sandbox_id: String,
    exec_id: String,
    command: CommandArgument,
    env: Environment,
    cwd: PyBackedBytes,
    user: String,
    times: Times,
    pty: Terminal,
    grader: bool,
    stdin: Option<PyBackedBytes>,
    max_output_bytes: u64,
) -> Request {
    Request(Call::ExecRun(v1::ExecRunRequest {
        sandbox_id,
        exec_id,
        command: Some(self::command(command, &env, &cwd, user, times, pty, grader)),
        stdin: stdin.map(Bytes::from_owner),
        max_output_bytes: Some(max_output_bytes),
    }))
}

#[pyfunction]
#[pyo3(signature = (sandbox_id, exec_id, command, env, cwd, user, times, pty, grader, stdin, control, output, output_window_bytes))]
#[expect(clippy::too_many_arguments, reason = "one per field of the message")]
pub(crate) fn start_request(
    sandbox_id: String,
    exec_id: String,
    command: CommandArgument,
    env: Environment,
    cwd: PyBackedBytes,
    user: String,
    times: Times,
    pty: Terminal,
    grader: bool,
    stdin: bool,
    control: bool,
    output: &str,
    output_window_bytes: Option<u64>,
) -> PyResult<Request> {
    let output = match output {
        "spill" => v1::OutputPolicy::Spill,
        "block" => v1::OutputPolicy::Block,
        "drop_oldest" => v1::OutputPolicy::DropOldest,
        other => return Err(PyValueError::new_err(format!("no output policy {other:?}"))),
    };
    Ok(Request(Call::ExecStart(v1::ExecStartRequest {
        sandbox_id,
        exec_id,
        command: Some(self::command(command, &env, &cwd, user, times, pty, grader)),
        stdin,
        output: output.into(),
        output_window_bytes,
        control,
    })))
}

#[pyfunction]
pub(crate) fn attach_request(
    sandbox_id: String,
    exec_id: String,
    stdout_offset: u64,
    stderr_offset: u64,
    no_wait: bool,
) -> Request {
    Request(Call::ExecAttach(v1::ExecAttachRequest {
        sandbox_id,
        exec_id,
        stdout_offset,
        stderr_offset,
        no_wait,
        ..Default::default()
    }))
}

#[pyfunction]
pub(crate) fn read_output_request(
    sandbox_id: String,
    exec_id: String,
    stream: &str,
    offset: u64,
    length: u64,
) -> PyResult<Request> {
    let stream = match stream {
        "stdout" => v1::OutputStream::Stdout,
        "stderr" => v1::OutputStream::Stderr,
        other => return Err(PyValueError::new_err(format!("stream is {other:?}"))),
    };
    Ok(Request(Call::ExecAttach(v1::ExecAttachRequest {
        sandbox_id,
        exec_id,
        stdout_offset: offset,
        stderr_offset: offset,
        no_wait: true,
        stream: stream.into(),
        length: Some(length),
    })))
}

#[pyfunction]
pub(crate) fn write_stdin_request(
    sandbox_id: String,
    exec_id: String,
    offset: u64,
    data: PyBackedBytes,
    eof: bool,
    control: bool,
) -> Request {
    let data = Bytes::from_owner(data);
    Request(Call::ExecWriteStdin(v1::ExecWriteStdinRequest {
        sandbox_id,
        exec_id,
        offset,
        data,
        eof,
        control,
    }))
}

#[pyfunction]
pub(crate) fn resize_request(
    sandbox_id: String,
    exec_id: String,
    rows: u32,
    columns: u32,
) -> Request {
    let size = Some(v1::Pty { rows, columns });
    Request(Call::ExecResize(v1::ExecResizeRequest { sandbox_id, exec_id, size }))
}

#[pyfunction]
pub(crate) fn signal_request(
    sandbox_id: String,
    exec_id: String,
    signal: u32,
    cancel: bool,
) -> Request {
    Request(Call::ExecSignal(v1::ExecSignalRequest { sandbox_id, exec_id, signal, cancel }))
}

#[pyfunction]
pub(crate) fn list_execs_request(sandbox_id: String) -> Request {
    Request(Call::ExecList(v1::ExecListRequest { sandbox_id }))
}

/// Bytes, processes, thousandths of a core, bytes, bytes.
type LimitsArgument = (Option<u64>, Option<u32>, Option<u32>, Option<u64>, Option<u64>);

#[pyfunction]
#[pyo3(signature = (sandbox_id, template, limits, ttl_ns, idle_timeout_ns, env, cwd, user, labels))]
#[expect(clippy::too_many_arguments, reason = "one per field of the message")]
pub(crate) fn claim_request(
    sandbox_id: String,
    template: String,
    limits: LimitsArgument,
    ttl_ns: Option<u64>,
    idle_timeout_ns: Option<u64>,
    env: Environment,
    cwd: PyBackedBytes,
    user: String,
    labels: BTreeMap<String, String>,
) -> Request {
    let (memory_bytes, pids, cpu_millis, disk_bytes, output_bytes) = limits;
    let env = env
        .iter()
        .map(|(name, value)| v1::EnvVar { name: copy(name), value: copy(value) })
        .collect();
    Request(Call::SandboxesClaim(v1::SandboxesClaimRequest {
        sandbox_id,
        template,
        limits: Some(v1::Limits { memory_bytes, pids, cpu_millis, disk_bytes, output_bytes }),
        ttl_ns,
        idle_timeout_ns,
        env,
        cwd: copy(&cwd),
        user,
        labels,
    }))
}

#[pyfunction]
pub(crate) fn release_request(sandbox_id: String) -> Request {
    Request(Call::SandboxesRelease(v1::SandboxesReleaseRequest { sandbox_id }))
}

#[pyfunction]
pub(crate) fn info_request() -> Request {
    Request(Call::SandboxesInfo(v1::SandboxesInfoRequest {}))
}

#[pyfunction]
pub(crate) fn list_sandboxes_request(
    labels: BTreeMap<String, String>,
    include_ended: bool,
) -> Request {
    Request(Call::SandboxesList(v1::SandboxesListRequest {
        labels,
        include_ended,
        include_warm: false,
    }))
}

#[pyfunction]
#[pyo3(signature = (sandbox_id, path, offset, length, tail, version))]
pub(crate) fn read_file_request(
    sandbox_id: String,
    path: PyBackedBytes,
    offset: u64,
    length: Option<u64>,
    tail: Option<u64>,
    version: PyBackedBytes,
) -> Request {
    let (path, version) = (copy(&path), copy(&version));
    Request(Call::FilesRead(v1::FilesReadRequest {
        sandbox_id,
        path,
        offset,
        length,
        tail,
        version,
    }))
}

/// Name of an upload, where in it the data begins, and whether more follows.
type UploadPart = (String, u64, bool);

/// The part of `data` that is to be sent, without a copy.
fn content(data: PyBackedBytes, start: usize, end: usize) -> PyResult<Bytes> {
    if start > end || end > data.len() {
        return Err(PyValueError::new_err(format!("no bytes {start} to {end} of {}", data.len())));
    }
    Ok(Bytes::from_owner(data).slice(start..end))
}

#[pyfunction]
#[pyo3(signature = (sandbox_id, path, data, start, end, mode, user, parents, protected, part))]
#[expect(clippy::too_many_arguments, reason = "one per field of the message")]
pub(crate) fn write_file_request(
    sandbox_id: String,
    path: PyBackedBytes,
    data: PyBackedBytes,
    start: usize,
    end: usize,
    mode: Option<u32>,
    user: String,
    parents: bool,
    protected: bool,
    part: UploadPart,
) -> PyResult<Request> {
    let (upload_id, offset, partial) = part;
    let target = v1::FilesWriteTarget {
        sandbox_id,
        path: copy(&path),
        mode,
        user,
        parents,
        upload_id,
        offset,
        partial,
        protected,
    };
    Ok(Request(Call::FilesWrite(target, content(data, start, end)?)))
}

#[pyfunction]
pub(crate) fn extract_request(
    sandbox_id: String,
    path: PyBackedBytes,
    data: PyBackedBytes,
    start: usize,
    end: usize,
    user: String,
    part: UploadPart,
) -> PyResult<Request> {
    let (upload_id, offset, partial) = part;
    let path = copy(&path);
    let target = v1::FilesExtractTarget { sandbox_id, path, user, upload_id, offset, partial };
    Ok(Request(Call::FilesExtract(target, content(data, start, end)?)))
}

#[pyfunction]
pub(crate) fn abandon_request(sandbox_id: String, upload_id: String) -> Request {
    Request(Call::FilesAbandon(v1::FilesAbandonRequest { sandbox_id, upload_id }))
}

#[pyfunction]
pub(crate) fn archive_request(sandbox_id: String, path: PyBackedBytes) -> Request {
    Request(Call::FilesArchive(v1::FilesArchiveRequest { sandbox_id, path: copy(&path) }))
}

#[pyfunction]
pub(crate) fn move_file_request(
    sandbox_id: String,
    source: PyBackedBytes,
    target: PyBackedBytes,
    replace: bool,
) -> Request {
    let (source, target) = (copy(&source), copy(&target));
    Request(Call::FilesMove(v1::FilesMoveRequest { sandbox_id, source, target, replace }))
}

#[pyfunction]
pub(crate) fn watch_request(sandbox_id: String, path: PyBackedBytes, recursive: bool) -> Request {
    Request(Call::FilesWatch(v1::FilesWatchRequest { sandbox_id, path: copy(&path), recursive }))
}

#[pyfunction]
pub(crate) fn stat_file_request(sandbox_id: String, path: PyBackedBytes, follow: bool) -> Request {
    Request(Call::FilesStat(v1::FilesStatRequest { sandbox_id, path: copy(&path), follow }))
}

#[pyfunction]
pub(crate) fn list_files_request(
    sandbox_id: String,
    path: PyBackedBytes,
    recursive: bool,
) -> Request {
    Request(Call::FilesList(v1::FilesListRequest { sandbox_id, path: copy(&path), recursive }))
}

#[pyfunction]
pub(crate) fn remove_file_request(
    sandbox_id: String,
    path: PyBackedBytes,
    recursive: bool,
) -> Request {
    Request(Call::FilesRemove(v1::FilesRemoveRequest { sandbox_id, path: copy(&path), recursive }))
}

#[pyfunction]
#[pyo3(signature = (sandbox_id, path, parents, mode, protected))]
pub(crate) fn make_dir_request(
    sandbox_id: String,
    path: PyBackedBytes,
    parents: bool,
    mode: Option<u32>,
    protected: bool,
) -> Request {
    let path = copy(&path);
    let message = v1::FilesMakeDirRequest { sandbox_id, path, parents, mode, protected };
    Request(Call::FilesMakeDir(message))
}
