"""Values that go into calls and come out of them. Units are seconds, bytes, cores and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = [
    "AgentInfo",
    "Capability",
    "Cause",
    "Command",
    "Counters",
    "ExecInfo",
    "ExecResult",
    "ExtractResult",
    "FileEntry",
    "FileEvent",
    "FileEventKind",
    "Limits",
    "Output",
    "OutputPolicy",
    "Pty",
    "SandboxInfo",
    "ShellResult",
    "Startup",
    "TextOutput",
    "TreeResult",
    "WriteResult",
]

Command = str | Sequence[str | bytes]
"""One line for the sandbox's `sh`, or program and arguments, executed as given."""


OutputPolicy = Literal["spill", "block", "drop_oldest"]
"""What becomes of a process's output that does not fit into its window in memory.

`spill`: it goes to a file. The first 64 MiB of each stream stay there, and all that some reader, or
nobody at all, has not read. An exec has at most 512 MiB there, all execs of an agent 4 GiB, half of
what is free, and less where the only files are in memory; the more others have, the less there is
for one. Beyond that the process waits in its write, for the reader that is furthest ahead. For a
reader that reads along it waits before anything it has not read goes to the file, 5 ms at a time:
one that takes less than half a MiB in that is not waited for again until it has caught up.

`block`: it waits in its write until somebody has read; of several readers the one that is furthest
ahead counts.

`drop_oldest`: it never waits, and the oldest output is dropped.

Whoever reads more slowly than the rest, and misses something, sees the offset jump."""


@dataclass(frozen=True, slots=True)
class Pty:
    """A terminal for an exec."""

    rows: int = 24
    """Lines of text, 1 to 65,535."""
    columns: int = 80
    """Characters of a line, 1 to 65,535."""


class Cause(str, Enum):
    """Why an exec ended, and so whose doing it was. Each member is equal to its text."""

    EXITED = "exited"
    """The program ended by itself, with any exit code."""
    SIGNALED = "signaled"
    """A signal that was not ours killed the program."""
    TIMEOUT = "timeout"
    """The `timeout` of the call was over."""
    CPU_LIMIT = "cpu_limit"
    """Its processes together used up the `cpu_time` of the call. One that ends by itself with more
    than that has this cause too, and its exit code."""
    MEMORY_LIMIT = "memory_limit"
    """A process of the sandbox was killed at the memory limit."""
    PIDS_LIMIT = "pids_limit"
    """A process could not be started at the process limit."""
    DISK_LIMIT = "disk_limit"
    """The sandbox's disk was full and the program failed."""
    OUTPUT_LIMIT = "output_limit"
    """It wrote more output than the hard limit allows."""
    CANCELED = "canceled"
    """The caller ended it."""
    IDLE_OUTPUT_TIMEOUT = "idle_output_timeout"
    """It wrote nothing, to neither stream, for the `idle_output_timeout` of the call. Time in which
    it waits for a reader of its output does not count."""

    def __str__(self) -> str:
        """Return the text alone, as it is on the wire."""
        return self.value


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sandbox may use. `None` is the template's value.

    A limit that the host cannot enforce is refused with `UnsupportedError`.
    """

    memory: int | None = None
    """Bytes of memory of all processes together, files in the sandbox included."""
    pids: int | None = None
    """Processes and threads at one time."""
    cpus: float | None = None
    """Cores, in thousandths: 0.5 is half of one. At least 0.01."""
    disk: int | None = None
    """Bytes that the sandbox may write anywhere, `/tmp` and `/dev/shm` included.

    Also bounds the number of files, one for each 4 KiB. It lives in memory, so it has to leave
    16 MiB of `memory` (half of a small one) free. `None`: the template's, but at most half of a
    `memory` given here. A larger one without `memory` raises that."""
    output: int | None = None
    """Bytes of output, both streams together, at which an exec is ended as `output_limit`."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How an exec ended and what it wrote.

    Only a program that ran has one; failures of the infrastructure are exceptions.
    """

    exec_id: str
    """Name of the exec, unique in its sandbox."""
    cause: Cause
    """Why it ended."""
    exit_code: int | None
    """Present exactly when the main process exited by itself, whatever the cause: 0 to 255."""
    signal: int | None
    """Present exactly when a signal killed the main process, whatever the cause."""
    stdout_bytes: bytes = field(repr=False)
    """What it wrote to stdout: all of it, or the first and last part if that was too much."""
    stderr_bytes: bytes = field(repr=False)
    """What it wrote to stderr, as `stdout_bytes`."""
    stdout_total_bytes: int
    """Bytes written to stdout, kept or not."""
    stderr_total_bytes: int
    """Bytes written to stderr, kept or not."""
    truncated: bool
    """Whether bytes of either stream are missing in the middle."""
    duration: float
    """Seconds from its start to its end, measured by the agent."""
    cpu_time: float
    """Seconds of CPU used by all of its processes until its end.

    Where `limit.cpu_time` is no capability of the agent, and of an exec that ends by itself within
    20 ms, only those of the main process and the children it waited for."""
    peak_memory: int
    """Bytes: the highest resident memory of the main process and the children it waited for."""
    limit: float | int | None = None
    """Value of the limit that `cause` names: seconds for a time, bytes, or processes."""
    limit_peak: float | int | None = None
    """Highest use seen of that limit, in its unit."""
    io_read_bytes: int | None = None
    """Bytes that the main process and the children it waited for read from disks. Files that are in
    memory, as all of a sandbox's own are, count nothing. `None` where the kernel does not count."""
    io_write_bytes: int | None = None
    """Bytes that they wrote to disks, as `io_read_bytes`."""
    _cuts: Mapping[str, tuple[int, int]] = field(
        default_factory=dict, repr=False, compare=False, hash=False
    )
    """Of each stream that was shortened: bytes before the gap, and bytes that are missing."""
    _hashes: Mapping[str, str | None] = field(
        default_factory=dict, repr=False, compare=False, hash=False
    )
    """Of each stream that is not whole in the result: its hash; `None` if it is not known."""
    _text: dict[str, str] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    @property
    def stdout(self) -> str:
        """`stdout_bytes` as UTF-8 text; invalid bytes are replaced. Decoded on first use.

        Where bytes are missing it has a line `[... 123 bytes not kept ...]`, and a character that
        the gap cut is left out. The bytes themselves never have a marker.
        """
        return self._decoded("stdout", self.stdout_bytes)

    @property
    def stderr(self) -> str:
        """`stderr_bytes` as UTF-8 text; otherwise as `stdout`."""
        return self._decoded("stderr", self.stderr_bytes)

    @property
    def stdout_head_bytes(self) -> int | None:
        """Bytes of `stdout_bytes` before the gap; `None` when nothing is missing."""
        return self._cuts["stdout"][0] if "stdout" in self._cuts else None

    @property
    def stderr_head_bytes(self) -> int | None:
        """Bytes of `stderr_bytes` before the gap; `None` when nothing is missing."""
        return self._cuts["stderr"][0] if "stderr" in self._cuts else None

    @property
    def stdout_sha256(self) -> str | None:
        """SHA-256 of all that was written to stdout, kept or not, in hexadecimal.

        `None` when it is not known: of a process that was read in part before `wait`, or of which
        output was dropped before it was read. Computed on first use when all of it is here.
        """
        return self._hash("stdout", self.stdout_bytes)

    @property
    def stderr_sha256(self) -> str | None:
        """SHA-256 of all that was written to stderr; otherwise as `stdout_sha256`."""
        return self._hash("stderr", self.stderr_bytes)

    @property
    def ok(self) -> bool:
        """Whether the program exited by itself with code 0 and met no limit."""
        return self.exit_code == 0 and self.cause is Cause.EXITED

    def _decoded(self, stream: str, data: bytes) -> str:
        text = self._text.get(stream)
        if text is None:
            cut = self._cuts.get(stream)
            text = data.decode("utf-8", "replace") if cut is None else _marked(data, *cut)
            self._text[stream] = text
        return text

    def _hash(self, stream: str, data: bytes) -> str | None:
        if stream in self._hashes:
            return self._hashes[stream]
        name = f"{stream}_sha256"
        digest = self._text.get(name)
        if digest is None:
            import hashlib  # noqa: PLC0415  (most results are never hashed)

            digest = self._text[name] = hashlib.sha256(data).hexdigest()
        return digest


def _marked(data: bytes, head: int, missing: int) -> str:
    """Decode two parts of a stream, with a line for what is missing between them."""
    import codecs  # noqa: PLC0415  (as above)

    # Not told that its input ends, a decoder holds back the first bytes of a cut character.
    before = codecs.getincrementaldecoder("utf-8")("replace").decode(data[:head])
    tail = data[head:]
    start = 0
    while start < min(3, len(tail)) and tail[start] & 0xC0 == 0x80:  # noqa: PLR2004  (RFC 3629)
        start += 1
    after = tail[start:].decode("utf-8", "replace")
    return f"{before}\n[... {missing} bytes not kept ...]\n{after}"


@dataclass(frozen=True, slots=True)
class ShellResult:
    """How a command of a shell ended and what was written meanwhile."""

    cause: Cause
    """`exited`, or `timeout`; for a command that ended the shell, why the shell ended."""
    exit_code: int | None
    """Status of the command as the shell has it, 128 + n after signal n. `None` after `timeout`,
    and if a signal killed the shell."""
    signal: int | None
    """Present exactly when a signal killed the shell itself."""
    ended: bool
    """Whether the shell itself has ended, by `exit`, `exec`, `set -e`, a signal or a limit. Its
    directory, variables, functions and jobs are gone; the next command gets a new shell."""
    output_bytes: bytes = field(repr=False)
    """What was written to stdout and stderr, in order: all of it, or the first and last part."""
    output_total_bytes: int
    """Bytes written, kept or not."""
    truncated: bool
    """Whether bytes are missing in the middle."""
    duration: float
    """Seconds from the call to the answer."""

    @property
    def output(self) -> str:
        """`output_bytes` as UTF-8 text; invalid bytes are replaced."""
        return self.output_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """Whether the command exited with 0, and the shell goes on."""
        return self.exit_code == 0 and self.cause is Cause.EXITED and not self.ended


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of what a process wrote, in the order of its stream."""

    stream: Literal["stdout", "stderr"]
    """Which stream it is from. The order between the two streams is not known exactly."""
    data: bytes
    """The bytes, never empty. A character may be cut at either end."""
    offset: int
    """Bytes of the stream before it. A jump means that output was not kept in between."""


@dataclass(frozen=True, slots=True)
class TextOutput:
    """A piece of what a process wrote, as text."""

    stream: Literal["stdout", "stderr"]
    """Which stream it is from."""
    text: str
    """Whole characters, never empty. Bytes that are no UTF-8 are replaced by U+FFFD."""


@dataclass(frozen=True, slots=True)
class ExecInfo:
    """An exec of a sandbox."""

    exec_id: str
    """Name of the exec, unique in its sandbox."""
    running: bool
    """Whether its main process runs."""
    pid: int
    """Process number inside the sandbox."""
    started_at: datetime
    """When it started, by the agent's clock."""
    cause: Cause | None
    """Why it ended; `None` while it runs."""
    exit_code: int | None
    """As in `ExecResult`; `None` while it runs."""


@dataclass(frozen=True, slots=True)
class Startup:
    """Where the time went that a sandbox took to start."""

    total: float
    """Seconds from the claim to the sandbox being ready."""
    hidden: float
    """Seconds of `total` during which no call waited."""
    waited: float
    """Seconds that the first call waited, as seen by its caller."""


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox as its agent sees it."""

    id: str
    """Name of the sandbox, unique on its agent."""
    template: str
    """What it was made from."""
    state: Literal["starting", "ready", "ended"]
    """Where it is in its life."""
    launch: Literal["warm", "cold"]
    """Whether it was taken from a pool or made for the claim."""
    limits: Limits
    """What is enforced; `None` in a field means no limit."""
    id_range: int
    """User ids inside: 65,536, or 1 where the host allows no more."""
    startup: float
    """Seconds from the claim's arrival at the agent to the sandbox being ready."""
    created_at: datetime
    """When it was claimed, by the agent's clock."""
    expires_at: datetime
    """When its lifetime (`ttl`) is over."""
    running_execs: int
    """Execs whose main process runs."""
    labels: Mapping[str, str]
    """As given at the claim."""
    init_pid: int
    """Process number of its first process, seen from the agent; 0 until it is known."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, directory or other thing in a sandbox."""

    name: str
    """Name in its directory; for `stat`, the path as given. Invalid UTF-8 as by `os.fsdecode`."""
    kind: Literal["file", "directory", "symlink", "other"]
    """What it is; `other` is a pipe, a socket or a device."""
    size: int
    """Bytes of content."""
    mode: int
    """Permission bits, set-id and sticky bits included."""
    uid: int
    """Owner, inside the sandbox."""
    gid: int
    """Group, inside the sandbox."""
    modified_at: datetime
    """When its content last changed."""
    target: str
    """Where a symlink points; else empty."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a file write left behind."""

    size: int
    """Bytes of the file."""
    sha256: str
    """Hash of its content in hexadecimal, computed by the agent as it wrote."""


@dataclass(frozen=True, slots=True)
class ExtractResult:
    """What the unpacking of an archive left behind."""

    size: int
    """Bytes of the archive."""
    entries: int
    """Members that were unpacked: all of them."""


@dataclass(frozen=True, slots=True)
class TreeResult:
    """What the copy of a directory left behind."""

    entries: int
    """Files, directories and links that were copied."""
    skipped: tuple[str, ...]
    """Paths that were not, below the directory: sockets and devices, and on the way out of a
    sandbox also links that would lead out of the directory. What changed meanwhile and was left
    out inside is counted by `read_archive` alone."""


FileEventKind = Literal[
    "created",
    "modified",
    "closed",
    "attributes",
    "deleted",
    "moved_from",
    "moved_to",
    "overflow",
    "gone",
]
"""What happened to a file. `closed`: a program that had it open to write has closed it. `overflow`:
changes were missed. `gone`: what is watched was removed or moved, and nothing more will come."""


@dataclass(frozen=True, slots=True)
class FileEvent:
    """A change to a file that is watched."""

    kind: FileEventKind
    """What happened."""
    path: str
    """Below what is watched; empty for that itself. Invalid UTF-8 as by `os.fsdecode`."""
    is_directory: bool
    """Whether it is one."""
    cookie: int
    """The same, and not 0, for the `moved_from` and `moved_to` of one rename."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that the agent's host gives or does not give."""

    name: str
    """Stable name, for example `limit.memory`."""
    available: bool
    """Whether it can be used."""
    detail: str
    """How it is provided, or what is missing and what would provide it."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals of an agent since it started. What an exec did is added when it ends."""

    sandboxes_claimed: int
    """Sandboxes that were begun."""
    sandboxes_lost: int
    """Of these, how many the infrastructure ended."""
    execs_started: int
    """Commands that were handed to a sandbox: all that have ended, and those that run."""
    execs_ended: Mapping[str, int]
    """Execs by how they ended: the text of their `Cause`; `lost` with their sandbox; `never_ran`
    because the program could not be started. Only what has happened is in it."""
    output_bytes: int
    """Bytes that programs wrote to stdout and stderr."""
    spilled_bytes: int
    """Bytes of it that went to a file because nobody read them in time."""
    stdin_bytes: int
    """Bytes that were taken for programs to read."""
    file_read_bytes: int
    """Bytes read by file calls."""
    file_written_bytes: int
    """Bytes written by file calls."""
    cpu_time: float
    """Seconds of CPU of all execs, as in `ExecResult`."""


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What an agent is and what its host can enforce."""

    version: str
    """Its release."""
    pid: int
    """Its process."""
    capabilities: tuple[Capability, ...]
    """What the host gives, in a fixed order."""
    sandboxes: int
    """Sandboxes it has."""
    templates: tuple[str, ...]
    """Names of the templates it offers."""
    counters: Counters
    """What it has done since it started."""
