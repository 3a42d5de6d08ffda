"""Exceptions raised by sandboxd.

* SandboxError
  * InvalidArgumentError       the call is wrong; also a `ValueError`
  * UnknownTemplateError       no template has this name
  * UnsupportedError           the host cannot give what was asked for
  * ResourceExhaustedError     a table of the agent is full, or a file longer than `max_bytes`
  * OutputRangeError           output at this offset is not kept, or was never written
  * SandboxNotFoundError       no sandbox has this id
  * SandboxClosedError         the sandbox was closed by its holder
  * SandboxLostError           the infrastructure ended it; files and processes are gone
  * LaunchFailedError          the sandbox could not be made
  * ExecFailedError            the program could not be started
  * ExecNotFoundError          no exec has this id
    * ExecExpiredError         one had, and its result is not kept any more
  * ExecConflictError          the id names another command
  * PatternNotFoundError       a shell's output has no match, up to its end or the timeout
  * FileError                  a file call failed
    * SandboxFileNotFoundError
    * SandboxFileExistsError
    * SandboxNotADirectoryError
    * SandboxIsADirectoryError
    * DirectoryNotEmptyError
    * NotARegularFileError
    * SandboxFileChangedError  it is not the file any more that was being read
    * ArchiveRefusedError      an archive, or a member of it, that is not unpacked
    * PermissionDeniedError
    * DiskFullError            the sandbox's disk limit leaves no room
    * FileFailedError          another failure, in the system's words
  * AgentError                 the agent cannot be talked to
    * AgentUnreachableError    no connection, so nothing ran; safe to repeat
    * ConnectionLostError      broken and not repaired; the command may have run
    * AgentMissingError        the agent's program is missing
    * VersionMismatchError     SDK and agent are of different releases
    * SocketUntrustedError     the agent's socket belongs to somebody else
    * UnauthenticatedError     the caller may not use this agent
    * StateUnusableError       the state folder is full, read-only or of somebody else
  * ControlUnreachableError    the control API does not answer; a claim may have been made
  * UsedAfterForkError         a handle was used by a process forked from its owner
  * InternalError              a defect of sandboxd

A program that exits non-zero or meets a limit is an `ExecResult`, not an exception.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AgentError",
    "AgentMissingError",
    "AgentUnreachableError",
    "ArchiveRefusedError",
    "ConnectionLostError",
    "ControlUnreachableError",
    "DirectoryNotEmptyError",
    "DiskFullError",
    "ExecConflictError",
    "ExecExpiredError",
    "ExecFailedError",
    "ExecNotFoundError",
    "FileError",
    "FileFailedError",
    "InternalError",
    "InvalidArgumentError",
    "LaunchFailedError",
    "NotARegularFileError",
    "OutputRangeError",
    "PatternNotFoundError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "SandboxClosedError",
    "SandboxError",
    "SandboxFileChangedError",
    "SandboxFileExistsError",
    "SandboxFileNotFoundError",
    "SandboxIsADirectoryError",
    "SandboxLostError",
    "SandboxNotADirectoryError",
    "SandboxNotFoundError",
    "SocketUntrustedError",
    "StateUnusableError",
    "UnauthenticatedError",
    "UnknownTemplateError",
    "UnsupportedError",
    "UsedAfterForkError",
    "VersionMismatchError",
]


class SandboxError(Exception):
    """Base of every exception raised by sandboxd.

    Attributes:
        code: Stable name of the error, the same on the wire and in metric labels.
        may_have_run: Whether the command may have run, or the change may have happened. If
            not, repeating the call is safe.
        reason: A stable word for why, where the class has several; else empty.
    """

    code: ClassVar[str] = "internal"

    may_have_run: bool
    reason: str

    def __init__(self, message: str, *, may_have_run: bool = False, reason: str = "") -> None:
        """Create the error with a message for people."""
        super().__init__(message)
        self.may_have_run = may_have_run
        self.reason = reason


class InvalidArgumentError(SandboxError, ValueError):
    """The call is wrong; the message names the argument and what to change. Nothing ran."""

    code = "invalid_argument"


class UnknownTemplateError(SandboxError):
    """No template has this name; the message lists those that exist."""

    code = "unknown_template"


class UnsupportedError(SandboxError):
    """The host cannot give what was asked for; the message says what would provide it."""

    code = "unsupported"


class ResourceExhaustedError(SandboxError):
    """A bound was met: a table or queue of the agent is full, or a file is longer than `max_bytes`.

    Nothing ran or changed.
    """

    code = "resource_exhausted"


class SandboxNotFoundError(SandboxError):
    """No sandbox has this id."""

    code = "sandbox_not_found"


class SandboxClosedError(SandboxError):
    """The sandbox was closed by its holder, or its lifetime is over."""

    code = "sandbox_closed"


class SandboxLostError(SandboxError):
    """The infrastructure ended the sandbox; nothing in it survives.

    Attributes:
        reason: Why, as a stable word, for example `agent_died`.
    """

    code = "sandbox_lost"


class LaunchFailedError(SandboxError):
    """The sandbox could not be made; the message names the step and the system's words."""

    code = "launch_failed"


class ExecFailedError(SandboxError):
    """The program could not be started, by fault of the request. It did not run."""

    code = "exec_failed"

    @property
    def step(self) -> str:
        """The step that failed, as a stable word, for example `program`, `directory` or `user`."""
        return self.reason


class OutputRangeError(SandboxError):
    """Output at this offset is not kept any more, or was not written so far.

    Nothing of other offsets is given instead.
    """

    code = "output_range"

    @property
    def stream(self) -> str:
        """`stdout` or `stderr`."""
        return self.reason.partition(":")[0]

    @property
    def kept(self) -> tuple[tuple[int, int], ...]:
        """What can be read: offsets of the first byte of each part and of the one after it."""
        parts = filter(None, self.reason.partition(":")[2].split(","))
        pairs = (part.partition("-") for part in parts)
        return tuple((int(start), int(end)) for start, _, end in pairs)


class ExecNotFoundError(SandboxError):
    """No exec has this id, as far as the agent remembers; see `ExecExpiredError`."""

    code = "exec_not_found"


class ExecExpiredError(ExecNotFoundError):
    """An exec had this id, and its result is not kept any more.

    A result is kept for a minute, and the last 1,024 of a sandbox at most, with 64 MiB of their
    output in memory and 1 GiB on disk. That an id was used is known of the last 65,536.
    """

    code = "exec_expired"


class ExecConflictError(SandboxError):
    """The `exec_id` names another command. Nothing ran."""

    code = "exec_conflict"


class PatternNotFoundError(SandboxError):
    """The output of a shell's command has no match for a pattern.

    Attributes:
        reason: `timeout`, or `ended` if the command ended first.
        output: What was written since the last match.
    """

    code = "pattern_not_found"

    def __init__(
        self,
        message: str,
        *,
        may_have_run: bool = False,
        reason: str = "",
        output: bytes = b"",
    ) -> None:
        """Create the error with what was seen instead."""
        super().__init__(message, may_have_run=may_have_run, reason=reason)
        self.output = output


class FileError(SandboxError):
    """Base of the failures of file calls. Never raised itself."""


class SandboxFileNotFoundError(FileError):
    """Nothing in the sandbox has this path."""

    code = "file_not_found"


class SandboxFileExistsError(FileError):
    """Something in the sandbox has this path already."""

    code = "file_exists"


class SandboxNotADirectoryError(FileError):
    """A part of the path is not a directory."""

    code = "not_a_directory"


class SandboxIsADirectoryError(FileError):
    """The path is a directory, and the call wants a file."""

    code = "is_a_directory"


class DirectoryNotEmptyError(FileError):
    """The directory has entries; `remove(recursive=True)` takes them too."""

    code = "directory_not_empty"


class NotARegularFileError(FileError):
    """The path is a pipe, a socket or a device, which file calls do not open."""

    code = "not_a_regular_file"


class SandboxFileChangedError(FileError):
    """The file is not the one any more whose reading was begun; what was read of it is of no use.

    Only a read that has to go on after a broken connection can notice: it is never gone on with in
    another content. Also raised if a file becomes shorter while it is archived.
    """

    code = "file_changed"


class ArchiveRefusedError(FileError):
    """An archive, or the member that the message names, is not unpacked.

    What came before it in the archive was, and stays: the message says how much.

    Attributes:
        reason: Why, as a stable word: `escapes`, `device`, `kind`, `owner`, `malformed` or
            `truncated`.
    """

    code = "archive_refused"


class PermissionDeniedError(FileError):
    """The sandbox does not allow it."""

    code = "permission_denied"


class DiskFullError(FileError):
    """The sandbox's disk limit leaves no room. An old file at the path is as it was."""

    code = "disk_full"


class FileFailedError(FileError):
    """Another failure of a file call; the message has the system's words."""

    code = "file_failed"


class AgentError(SandboxError):
    """Base of the errors that say that the agent cannot be talked to. Never raised itself."""


class AgentUnreachableError(AgentError):
    """No connection to the agent could be made, so nothing was sent: repeating is safe."""

    code = "agent_unreachable"


class ConnectionLostError(AgentError):
    """The connection broke and could not be repaired; `may_have_run` says what that means."""

    code = "connection_lost"


class AgentMissingError(AgentError):
    """The agent's program is missing, or is not a program."""

    code = "agent_missing"


class VersionMismatchError(AgentError):
    """SDK and agent are of different minor releases."""

    code = "version_mismatch"


class SocketUntrustedError(AgentError):
    """The agent's socket belongs to somebody else, who could read and change everything."""

    code = "socket_untrusted"


class UnauthenticatedError(AgentError):
    """The agent does not serve this user."""

    code = "unauthenticated"


class StateUnusableError(AgentError):
    """The state folder cannot be used; the message says which one and why."""

    code = "state_unusable"


class ControlUnreachableError(SandboxError):
    """The control API does not answer. Sandboxes that are bound already do not notice.

    A claim is sent again under the same name, so that it is made once; one whose answer never came
    ends with its `ttl`.
    """

    code = "control_unreachable"


class UsedAfterForkError(SandboxError):
    """A handle was used by a process that was forked from its owner. Nothing was sent."""

    code = "used_after_fork"


class InternalError(SandboxError):
    """A defect of sandboxd. Please report it with the message."""

    code = "internal"


_LEAVES = (
    AgentMissingError,
    AgentUnreachableError,
    ArchiveRefusedError,
    ConnectionLostError,
    ControlUnreachableError,
    DirectoryNotEmptyError,
    DiskFullError,
    ExecConflictError,
    ExecExpiredError,
    ExecFailedError,
    ExecNotFoundError,
    FileFailedError,
    InternalError,
    InvalidArgumentError,
    LaunchFailedError,
    NotARegularFileError,
    OutputRangeError,
    PatternNotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    SandboxClosedError,
    SandboxFileChangedError,
    SandboxFileExistsError,
    SandboxFileNotFoundError,
    SandboxIsADirectoryError,
    SandboxLostError,
    SandboxNotADirectoryError,
    SandboxNotFoundError,
    SocketUntrustedError,
    StateUnusableError,
    UnauthenticatedError,
    UnknownTemplateError,
    UnsupportedError,
    UsedAfterForkError,
    VersionMismatchError,
)
_BY_CODE: dict[str, type[SandboxError]] = {leaf.code: leaf for leaf in _LEAVES}


def from_native(error: Exception) -> SandboxError:
    """Build the public exception for an error raised by the extension."""
    code, message, may_have_run, reason = error.args
    return from_code(code, message, may_have_run=may_have_run, reason=reason)


def from_code(
    code: str, message: str, *, may_have_run: bool = False, reason: str = ""
) -> SandboxError:
    """Build the public exception for an error that came over a wire."""
    # A newer peer may send a code that is unknown here: the base class still says enough.
    kind = _BY_CODE.get(code, SandboxError)
    return kind(message, may_have_run=may_have_run, reason=reason)
