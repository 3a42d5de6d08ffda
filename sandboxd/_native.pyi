"""The direct path to an agent. Private: only `sandboxd.client` talks to it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar, final

__all__ = [
    "ERROR_CODES",
    "AgentInfo",
    "Connection",
    "Counters",
    "ExecEnd",
    "ExecSummary",
    "FileRecord",
    "NativeError",
    "Request",
    "RunReply",
    "SandboxRecord",
    "__version__",
    "abandon_request",
    "archive_request",
    "attach_request",
    "claim_request",
    "extract_request",
    "info_request",
    "list_execs_request",
    "list_files_request",
    "list_sandboxes_request",
    "make_dir_request",
    "move_file_request",
    "read_file_request",
    "read_output_request",
    "release_request",
    "remove_file_request",
    "resize_request",
    "run_request",
    "signal_request",
    "start_request",
    "stat_file_request",
    "watch_request",
    "write_file_request",
    "write_stdin_request",
]

_T_co = TypeVar("_T_co", covariant=True)

__version__: Final[str]
ERROR_CODES: Final[list[str]]

class NativeError(Exception):
    """Failure of a call, as `(code, message, may_have_run, reason)`."""

@final
class Request(Generic[_T_co]):
    """One call, ready to be sent on any connection; the parameter is its reply or item."""

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice has the effect of sending it once."""

@final
class Connection:
    """A connection to an agent, driven by an event loop or by a thread that blocks.

    Its callbacks get the connection: `on_full` when bytes wait for room in the socket,
    `on_failed` once, when it is of no use any more.
    """

    def __new__(
        cls,
        path: str,
        *,
        keepalive: float,
        greeting: float,
        on_full: Callable[[Connection], object] | None = None,
        on_failed: Callable[[Connection], object] | None = None,
    ) -> Connection:
        """Connect to the agent at `path`; its greeting is not waited for.

        Args:
            path: The agent's socket.
            keepalive: Seconds between signs of life while calls wait.
            greeting: Seconds that the agent has for its first answer.
            on_full: Called when the socket must be watched for room.
            on_failed: Called when the socket must not be watched any more.
        """

    @property
    def failed(self) -> bool:
        """Whether the connection is of no use any more."""

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait for room in the socket."""

    @property
    def tick_in(self) -> float | None:
        """Seconds until `on_tick` is of use; `None` while nothing waits for the agent."""

    @property
    def agent_pid(self) -> int:
        """The agent's process; 0 before its greeting."""

    def fileno(self) -> int:
        """Return the descriptor to watch."""

    def submit(self, request: Request[Any], future: Any = None) -> int:
        """Begin a call and return its number; `future` gets the reply of a unary call."""

    def receive(self, call: int, future: Any) -> list[Any] | None:
        """Return what has arrived of a stream, empty at its end; `None`: `future` gets it."""

    def wait(self, call: int) -> Any:
        """Block until the reply of a unary call."""

    def wait_items(self, call: int, seconds: float | None = None) -> list[Any] | None:
        """Block until something arrives of a stream; empty at its end. `None` after `seconds`."""

    def cancel(self, call: int) -> None:
        """Forget a call; an exec is ended by it, a stream stopped."""

    def forget(self, call: int) -> None:
        """Forget a call and let it happen."""

    def on_readable(self) -> None:
        """Take in what has arrived; called by the loop."""

    def on_writable(self) -> bool:
        """Write what waits, and return whether that was all; called by the loop."""

    def on_tick(self) -> None:
        """Keep alive; called by the loop every `keepalive` seconds while calls wait."""

    def close(self) -> None:
        """End the connection and forget its calls."""

@final
class ExecEnd:
    """How an exec ended. Times are in seconds; limits in the limit's own unit on the wire."""

    @property
    def cause(self) -> str:
        """Why it ended, as a value of `Cause`."""

    @property
    def exit_code(self) -> int | None:
        """Exit code of the main process, if it exited by itself."""

    @property
    def signal(self) -> int | None:
        """Signal that killed the main process, if one did."""

    @property
    def duration(self) -> float:
        """Seconds from start to end."""

    @property
    def cpu_time(self) -> float:
        """Seconds of CPU."""

    @property
    def peak_memory(self) -> int:
        """Bytes."""

    @property
    def limit(self) -> int | None:
        """Nanoseconds, bytes or processes."""

    @property
    def limit_peak(self) -> int | None:
        """Nanoseconds, bytes or processes."""

    @property
    def stdout_total_bytes(self) -> int:
        """Bytes written to stdout."""

    @property
    def stderr_total_bytes(self) -> int:
        """Bytes written to stderr."""

    @property
    def io_read_bytes(self) -> int | None:
        """Bytes read from block devices, where the kernel counts them."""

    @property
    def io_write_bytes(self) -> int | None:
        """Bytes written to block devices, likewise."""

    @property
    def stdout_sha256(self) -> str | None:
        """Hash of all of stdout in hexadecimal, where bytes of it are lost."""

    @property
    def stderr_sha256(self) -> str | None:
        """Hash of all of stderr in hexadecimal, where bytes of it are lost."""

@final
class RunReply:
    """Result of a run; each look at a stream makes a new bytes object."""

    @property
    def end(self) -> ExecEnd:
        """How it ended."""

    @property
    def stdout(self) -> bytes:
        """Head and tail of stdout."""

    @property
    def stderr(self) -> bytes:
        """Head and tail of stderr."""

    @property
    def stdout_head_bytes(self) -> int | None:
        """Length of the head where bytes are missing after it."""

    @property
    def stderr_head_bytes(self) -> int | None:
        """Length of the head where bytes are missing after it."""

@final
class ExecSummary:
    """An exec in a list."""

    @property
    def exec_id(self) -> str:
        """Its name."""

    @property
    def running(self) -> bool:
        """Whether its main process runs."""

    @property
    def pid(self) -> int:
        """Process number inside the sandbox."""

    @property
    def started_at(self) -> float:
        """Seconds since the epoch."""

    @property
    def end(self) -> ExecEnd | None:
        """How it ended."""

    @property
    def stdin_offset(self) -> int | None:
        """Bytes of stdin taken so far; `None` if it is the null device."""

    @property
    def stdin_ended(self) -> bool:
        """Whether no more stdin is taken."""

@final
class SandboxRecord:
    """A sandbox as its agent sees it. Times are in seconds, points in time since the epoch."""

    @property
    def sandbox_id(self) -> str:
        """Its name."""

    @property
    def template(self) -> str:
        """What it was made from."""

    @property
    def state(self) -> str:
        """`starting`, `ready` or `ended`."""

    @property
    def launch(self) -> str:
        """`warm` or `cold`."""

    @property
    def startup(self) -> float:
        """Seconds until it was ready."""

    @property
    def limits(self) -> _Limits:
        """Bytes, processes, thousandths of a core, bytes, bytes."""

    @property
    def id_range(self) -> int:
        """User ids inside."""

    @property
    def created_at(self) -> float:
        """When it was claimed."""

    @property
    def expires_at(self) -> float:
        """When its lifetime is over."""

    @property
    def running_execs(self) -> int:
        """Execs that run."""

    @property
    def labels(self) -> dict[str, str]:
        """As given at the claim."""

    @property
    def init_pid(self) -> int:
        """Its first process, or 0."""

@final
class AgentInfo:
    """What an agent is."""

    @property
    def version(self) -> str:
        """Its release."""

    @property
    def pid(self) -> int:
        """Its process."""

    @property
    def capabilities(self) -> list[tuple[str, bool, str]]:
        """Name, whether available, detail."""

    @property
    def sandboxes(self) -> int:
        """Sandboxes it has."""

    @property
    def templates(self) -> list[str]:
        """Templates it offers."""

    @property
    def counters(self) -> Counters:
        """Totals since it started."""

@final
class Counters:
    """Totals of an agent since it started. Its names are those of `sandboxd.Counters`."""

    @property
    def sandboxes_claimed(self) -> int:
        """Sandboxes."""

    @property
    def sandboxes_lost(self) -> int:
        """Sandboxes."""

    @property
    def execs_started(self) -> int:
        """Execs."""

    @property
    def execs_ended(self) -> dict[str, int]:
        """Execs, by cause."""

    @property
    def output_bytes(self) -> int:
        """Bytes."""

    @property
    def spilled_bytes(self) -> int:
        """Bytes."""

    @property
    def stdin_bytes(self) -> int:
        """Bytes."""

    @property
    def file_read_bytes(self) -> int:
        """Bytes."""

    @property
    def file_written_bytes(self) -> int:
        """Bytes."""

    @property
    def cpu_time(self) -> float:
        """Seconds of CPU."""

@final
class FileRecord:
    """A file as `stat` sees it."""

    @property
    def name(self) -> bytes:
        """Name in its directory, or the path as asked."""

    @property
    def kind(self) -> str:
        """`file`, `directory`, `symlink` or `other`."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def mode(self) -> int:
        """Permission bits."""

    @property
    def uid(self) -> int:
        """Owner."""

    @property
    def gid(self) -> int:
        """Group."""

    @property
    def modified_at(self) -> float:
        """Seconds since the epoch."""

    @property
    def target(self) -> bytes:
        """Target of a symlink."""

_Command: TypeAlias = bytes | list[bytes]
_Environment: TypeAlias = Sequence[tuple[bytes, bytes]]
_Times: TypeAlias = tuple[int | None, int | None, int | None]
_Limits: TypeAlias = tuple[int | None, int | None, int | None, int | None, int | None]

def run_request(
    sandbox_id: str,
    exec_id: str,
    command: _Command,
    env: _Environment,
    cwd: bytes,
    user: str,
    times: _Times,
    pty: tuple[int, int] | None,
    grader: bool,
    stdin: bytes | None,
    max_output_bytes: int,
) -> Request[RunReply]:
    """Build `Exec.Run`."""

def start_request(
    sandbox_id: str,
    exec_id: str,
    command: _Command,
    env: _Environment,
    cwd: bytes,
    user: str,
    times: _Times,
    pty: tuple[int, int] | None,
    grader: bool,
    stdin: bool,
    control: bool,
    output: str,
    output_window_bytes: int | None,
) -> Request[tuple[int, bool]]:
    """Build `Exec.Start`; the reply is the pid and whether it was started."""

def attach_request(
    sandbox_id: str, exec_id: str, stdout_offset: int, stderr_offset: int, no_wait: bool
) -> Request[tuple[str, int, bytes] | ExecEnd]:
    """Build `Exec.Attach`; items are stream, offset and bytes, then the end."""

def read_output_request(
    sandbox_id: str, exec_id: str, stream: str, offset: int, length: int
) -> Request[tuple[str, int, bytes] | ExecEnd]:
    """Build `Exec.Attach` for what is there of one stream; items are as above, without an end."""

def write_stdin_request(
    sandbox_id: str,
    exec_id: str,
    offset: int,
    data: bytes,
    eof: bool,
    control: bool,
) -> Request[int]:
    """Build `Exec.WriteStdin`; the reply is the number of bytes taken in all."""

def signal_request(
    sandbox_id: str,
    exec_id: str,
    signal: int,
    cancel: bool,
) -> Request[bool]:
    """Build `Exec.Signal`; the reply is whether it was delivered."""

def resize_request(sandbox_id: str, exec_id: str, rows: int, columns: int) -> Request[bool]:
    """Build `Exec.Resize`; the reply is whether the exec still had its terminal."""

def list_execs_request(sandbox_id: str) -> Request[list[ExecSummary]]:
    """Build `Exec.List`."""

def claim_request(
    sandbox_id: str,
    template: str,
    limits: _Limits,
    ttl_ns: int | None,
    idle_timeout_ns: int | None,
    env: _Environment,
    cwd: bytes,
    user: str,
    labels: Mapping[str, str],
) -> Request[SandboxRecord]:
    """Build `Sandboxes.Claim`."""

def release_request(sandbox_id: str) -> Request[bool]:
    """Build `Sandboxes.Release`; the reply is whether it was still there."""

def info_request() -> Request[AgentInfo]:
    """Build `Sandboxes.Info`."""

def list_sandboxes_request(
    labels: Mapping[str, str],
    include_ended: bool,
) -> Request[list[SandboxRecord]]:
    """Build `Sandboxes.List`."""

def read_file_request(
    sandbox_id: str,
    path: bytes,
    offset: int,
    length: int | None,
    tail: int | None,
    version: bytes,
) -> Request[tuple[bytes, tuple[int, int, bytes] | None]]:
    """Build `Files.Read`; items are pieces of the file, the first with offset, size and version."""

def write_file_request(
    sandbox_id: str,
    path: bytes,
    data: bytes,
    start: int,
    end: int,
    mode: int | None,
    user: str,
    parents: bool,
    protected: bool,
    part: tuple[str, int, bool],
) -> Request[tuple[int, bytes]]:
    """Build `Files.Write` of a part of `data`; the reply is size and hash.

    `part` is the upload's id, the offset of this part in the file, and whether more follows.
    """

def extract_request(
    sandbox_id: str,
    path: bytes,
    data: bytes,
    start: int,
    end: int,
    user: str,
    part: tuple[str, int, bool],
) -> Request[tuple[int, int]]:
    """Build `Files.Extract`, as `write_file_request`; the reply is bytes and members so far."""

def abandon_request(sandbox_id: str, upload_id: str) -> Request[None]:
    """Build `Files.Abandon`."""

def archive_request(sandbox_id: str, path: bytes) -> Request[tuple[bytes, tuple[int, int] | None]]:
    """Build `Files.Archive`; items are pieces of it, the last with members and those left out."""

def move_file_request(
    sandbox_id: str, source: bytes, target: bytes, replace: bool
) -> Request[None]:
    """Build `Files.Move`."""

def watch_request(
    sandbox_id: str, path: bytes, recursive: bool
) -> Request[list[tuple[str, bytes, bool, int]]]:
    """Build `Files.Watch`; items are lists of kind, path, whether it is a directory, cookie."""

def stat_file_request(
    sandbox_id: str,
    path: bytes,
    follow: bool,
) -> Request[FileRecord]:
    """Build `Files.Stat`."""

def list_files_request(sandbox_id: str, path: bytes, recursive: bool) -> Request[list[FileRecord]]:
    """Build `Files.List`."""

def remove_file_request(
    sandbox_id: str,
    path: bytes,
    recursive: bool,
) -> Request[None]:
    """Build `Files.Remove`."""

def make_dir_request(
    sandbox_id: str,
    path: bytes,
    parents: bool,
    mode: int | None,
    protected: bool,
) -> Request[None]:
    """Build `Files.MakeDir`."""
