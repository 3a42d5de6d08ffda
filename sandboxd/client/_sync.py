"""The blocking forms: thin facades that drive the async ones over a transport that blocks.

A test compares every signature and docstring with its async twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd.client._blocking import BlockingTransport, drive
from sandboxd.client._process import DEFAULT_MAX_OUTPUT_BYTES
from sandboxd.client._sandbox import AsyncSandbox

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from typing_extensions import Self

    from sandboxd.client._agent import Agent
    from sandboxd.client._files import AsyncFiles, Path
    from sandboxd.client._process import AsyncProcess
    from sandboxd.client._transport import Transport
    from sandboxd.types import (
        Command,
        ExecInfo,
        ExecResult,
        FileEntry,
        Limits,
        Output,
        SandboxInfo,
        Startup,
        WriteResult,
    )


class _Driven(AsyncSandbox):
    """The async handle over the transport that blocks."""

    @staticmethod
    def _transport(agent: Agent) -> Transport:
        return BlockingTransport(agent)


class Process:
    """A command that was started, returned by `Sandbox.start`.

    Iterate over it for its output as it comes:

        for output in process:
            print(output.stream, output.data)

    It runs on when this object is dropped, until it ends by itself, is killed, or its sandbox is
    closed. A broken connection is repaired by reading on from the same offset.
    """

    def __init__(self, process: AsyncProcess) -> None:
        """Wrap an exec that was started. Use `Sandbox.start`, not this."""
        self._process = process

    def __repr__(self) -> str:
        """Show what names the process."""
        return repr(self._process).replace("AsyncProcess", "Process", 1)

    def __iter__(self) -> Iterator[Output]:
        """Iterate over output that was not returned yet. For one reader at a time."""
        return self

    def __next__(self) -> Output:
        """Wait for the next piece of output; ends when the process and its output have ended."""
        try:
            return drive(self._process.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    @property
    def exec_id(self) -> str:
        """Name of the exec, unique in its sandbox."""
        return self._process.exec_id

    @property
    def pid(self) -> int:
        """Process number inside the sandbox."""
        return self._process.pid

    def wait(self, *, max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES) -> ExecResult:
        """Wait for the end.

        Output that was iterated over before this call is not in the result; `truncated` speaks of
        the rest alone. Cancelling the call does not end the process.

        Args:
            max_output_bytes: Bytes kept of each stream, 0 to 256 MiB: the first and the last
                half. More is counted, and `truncated` says so.

        Returns:
            How it ended, and the output that was not iterated over.

        Raises:
            SandboxLostError: If the infrastructure ended the sandbox.
            SandboxClosedError: If the sandbox was closed.
            ExecNotFoundError: If the process ended so long ago that its result is not kept:
                more than a minute, or a thousand execs.
            ConnectionLostError: If the connection could not be repaired within 20 seconds.
        """
        return drive(self._process.wait(max_output_bytes=max_output_bytes))

    def write_stdin(self, data: bytes | bytearray | memoryview | str) -> None:
        """Write to stdin, and wait until the process or the pipe has taken it.

        For one writer at a time. Bytes are written once, even over a broken connection.

        Args:
            data: Bytes of any length, or text that is encoded as UTF-8.

        Raises:
            InvalidArgumentError: If the process was started without `stdin=True`.
            ExecNotFoundError: If the process has ended.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired; a part may be written.
        """
        drive(self._process.write_stdin(data))

    def close_stdin(self) -> None:
        """Say that there is no more stdin. A second time is no error.

        Raises:
            InvalidArgumentError: If the process was started without `stdin=True`.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        drive(self._process.close_stdin())

    def send_signal(self, signal: int) -> bool:
        """Send a signal to every process of the exec, background children included.

        Args:
            signal: Number from 1 to 64, or a member of `signal.Signals`.

        Returns:
            Whether it was delivered; false when the exec had ended before.

        Raises:
            InvalidArgumentError: If there is no such signal.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection broke; it may have been delivered.
        """
        return drive(self._process.send_signal(signal))

    def terminate(self) -> bool:
        """Send SIGTERM to every process of the exec; as `send_signal`."""
        return drive(self._process.terminate())

    def kill(self) -> bool:
        """End the exec: every process of it dies, and its cause is `canceled`.

        Processes that left their session or were orphaned die too. Returns when it is over.

        Returns:
            Whether it did that; false when the exec had ended before.

        Raises:
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        return drive(self._process.kill())


class Files:
    """The files of a sandbox, as `Sandbox.files`.

    Paths are resolved inside the sandbox, its symlinks included, and never lead out of it.
    A relative one starts at the sandbox's working directory. All calls can also raise what every
    call of a sandbox can: `SandboxLostError`, `SandboxClosedError`, `AgentUnreachableError` and
    `ConnectionLostError`.
    """

    def __init__(self, files: AsyncFiles) -> None:
        """Wrap a sandbox. Use `Sandbox.files`, not this."""
        self._files = files

    def read(self, path: Path, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a regular file, or a part of it.

        Args:
            path: Where it is.
            offset: Bytes to skip. Beyond the end: the result is empty.
            length: Bytes to read at most. `None`: to the end.

        Returns:
            The bytes; fewer than `length` where the file ends.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            SandboxIsADirectoryError: If it is a directory.
            NotARegularFileError: If it is a pipe, a socket or a device.
            FileError: If it cannot be read for another reason.
        """
        return drive(self._files.read(path, offset=offset, length=length))

    def read_text(self, path: Path, *, encoding: str = "utf-8") -> str:
        """Read a whole regular file as text; as `read`.

        Args:
            path: Where it is.
            encoding: How its bytes are to be understood. Invalid ones are replaced.

        Returns:
            The text, line ends as they are.

        Raises:
            FileError: As `read`.
        """
        return drive(self._files.read_text(path, encoding=encoding))

    def write(
        self,
        path: Path,
        data: bytes | bytearray | memoryview | str,
        *,
        mode: int | None = None,
        user: str | None = None,
        parents: bool = True,
    ) -> WriteResult:
        """Write a whole file; nobody ever sees half of it.

        The data goes to a temporary file that replaces the target in one step. When this returns
        it has happened; when it raises, the old file is as it was, unless `may_have_run` is set.

        Args:
            path: Where to.
            data: Bytes of any size, or text that is encoded as UTF-8.
            mode: Permission bits. `None`: those of the file that is replaced, else 0644.
            user: Owner, as `name`, `uid` or `uid:gid`. `None`: root of the sandbox.
            parents: Make missing directories above it.

        Returns:
            Size and hash of what was written, as the agent saw it.

        Raises:
            DiskFullError: If the sandbox's disk limit leaves no room.
            SandboxIsADirectoryError: If the path is a directory.
            FileError: If it cannot be written for another reason.
        """
        return drive(self._files.write(path, data, mode=mode, user=user, parents=parents))

    def stat(self, path: Path, *, follow: bool = True) -> FileEntry:
        """Look at a file, a directory or anything else.

        Args:
            path: Where it is.
            follow: Look at what a symlink points to, rather than at the symlink.

        Returns:
            What it is; `name` is the path as given.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            FileError: If it cannot be looked at for another reason.
        """
        return drive(self._files.stat(path, follow=follow))

    def list(self, path: Path) -> list[FileEntry]:
        """List a directory.

        Args:
            path: Where it is.

        Returns:
            Its entries, sorted by the bytes of their names; symlinks are not followed.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            SandboxNotADirectoryError: If it is not a directory.
            FileError: If it cannot be listed for another reason.
        """
        return drive(self._files.list(path))

    def remove(self, path: Path, *, recursive: bool = False) -> None:
        """Remove a file, a symlink or a directory.

        Args:
            path: Where it is. A symlink is removed, not what it points to.
            recursive: Remove a directory with everything in it.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            DirectoryNotEmptyError: If it is a directory with entries and not `recursive`.
            FileError: If it cannot be removed for another reason.
        """
        drive(self._files.remove(path, recursive=recursive))

    def mkdir(self, path: Path, *, parents: bool = True, mode: int | None = None) -> None:
        """Make a directory.

        Args:
            path: Where.
            parents: Make missing directories above it; one that exists is then no error.
            mode: Permission bits. `None`: 0755.

        Raises:
            SandboxFileExistsError: If the path exists and is no directory, or not `parents`.
            FileError: If it cannot be made for another reason.
        """
        drive(self._files.mkdir(path, parents=parents, mode=mode))


class Sandbox:
    """An isolated environment for commands and files, usable at once.

    Creating it returns before it exists; calls made meanwhile are sent behind its claim and run in
    order when it is ready.

        with Sandbox() as sandbox:
            result = sandbox.run("python3 -c 'print(6*7)'", timeout=10)

    The agent that has it is started by the first sandbox of a process and ends with the process;
    `SANDBOXD_SOCKET` names one that runs already. One handle may be used by any number of threads.
    After a fork only the process that made it may use it.

    Leave the `with` block or call `close`; without that it lives until its `ttl`, or until
    this process ends.

    Args:
        template: What to start; see `agent_info().templates`.
        limits: What it may use. `None`, or `None` in a field: the template's.
        ttl: Seconds until it is ended whatever it does, from the claim. `None`: 24 hours.
        idle_timeout: Seconds without a running exec or a call until it is ended. `None`: never.
        env: Variables of every exec, over the template's.
        cwd: Absolute working directory of execs that name none. `None`: the user's home.
        user: User of execs that name none: `name`, `uid` or `uid:gid`. `None`: its root.
        labels: Text that describes it in lists.
        sandbox_id: Its name: 1 to 64 letters, digits, `_`, `.` or `-`. `None`: a fresh one.

    Raises:
        InvalidArgumentError: If an argument is wrong. Nothing was started.
        AgentMissingError: If the agent's program is missing.
        StateUnusableError: If the state folder cannot be used.
        SocketUntrustedError: If `SANDBOXD_SOCKET` belongs to somebody else.

    What the agent refuses (an unknown template, a limit that the host cannot enforce) is raised by
    `ready` and by every call.
    """

    def __init__(
        self,
        template: str = "host",
        *,
        limits: Limits | None = None,
        ttl: float | None = None,
        idle_timeout: float | None = None,
        env: Mapping[str, str | bytes] | None = None,
        cwd: str | bytes | os.PathLike[str] | None = None,
        user: str | None = None,
        labels: Mapping[str, str] | None = None,
        sandbox_id: str | None = None,
    ) -> None:
        """Claim a sandbox; see the class."""
        self._sandbox = _Driven(
            template,
            limits=limits,
            ttl=ttl,
            idle_timeout=idle_timeout,
            env=env,
            cwd=cwd,
            user=user,
            labels=labels,
            sandbox_id=sandbox_id,
        )
        self._files = Files(self._sandbox.files)

    def __repr__(self) -> str:
        """Show what names the sandbox."""
        return f"<{type(self).__name__} {self.id!r} of template {self.template!r}>"

    def __enter__(self) -> Self:
        """Return the handle, without waiting."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the sandbox."""
        self.close()

    @property
    def id(self) -> str:
        """Name of the sandbox, unique on its agent. Known at once."""
        return self._sandbox.id

    @property
    def template(self) -> str:
        """What it is made from."""
        return self._sandbox.template

    @property
    def files(self) -> Files:
        """Its files."""
        return self._files

    @property
    def startup(self) -> Startup:
        """Where the time of its start went; known when `ready` or a call has returned.

        Raises:
            SandboxError: If the sandbox is not ready yet.
        """
        return self._sandbox.startup

    def ready(self) -> None:
        """Wait until the sandbox is ready. Only needed to measure, or to fail early.

        Cancelling the call does not cancel the start.

        Raises:
            UnknownTemplateError: If the agent has no such template.
            UnsupportedError: If the host cannot give what was asked for.
            LaunchFailedError: If the sandbox could not be made.
            SandboxClosedError: If the handle is closed.
            SandboxLostError: If the infrastructure ended it.
            AgentUnreachableError: If the agent does not answer; its last words are quoted.
        """
        drive(self._sandbox.ready())

    def close(self) -> None:
        """End the sandbox and everything in it; nothing of it remains. A second time does nothing.

        Works in every state: before it is ready, while execs run (they raise
        `SandboxClosedError`), after it was lost.

        Raises:
            AgentUnreachableError: If an agent that runs already cannot be reached.
            ConnectionLostError: If the connection could not be repaired.
        """
        drive(self._sandbox.close())

    def info(self) -> SandboxInfo:
        """Return what the agent says about the sandbox.

        Raises:
            SandboxNotFoundError: If it ended so long ago that the agent forgot it.
            SandboxClosedError: If the handle is closed.
            SandboxLostError: If the agent died, and the sandbox with it.
        """
        return drive(self._sandbox.info())

    def execs(self) -> list[ExecInfo]:
        """Return the execs that run, and those whose results are still kept.

        Raises:
            SandboxClosedError: If the handle is closed.
            SandboxLostError: If the infrastructure ended the sandbox.
        """
        return drive(self._sandbox.execs())

    def run(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        cwd: str | bytes | os.PathLike[str] | None = None,
        env: Mapping[str, str | bytes] | None = None,
        user: str | None = None,
        stdin: bytes | bytearray | memoryview | str | None = None,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
        exec_id: str | None = None,
    ) -> ExecResult:
        """Run a command to its end. Cancelling the call ends the command.

        Background children that it leaves are not waited for, and live on in the sandbox.

        Args:
            command: One line for the sandbox's `sh`, or program and arguments, executed as given.
                Each argument has at most 131,071 bytes; a line at most 16 MiB.
            timeout: Seconds until every process of the command is killed. `None`: no limit.
            cwd: Absolute working directory. `None`: the sandbox's.
            env: Variables over the sandbox's, each at most 131,071 bytes with its name.
            user: `name`, `uid` or `uid:gid`. `None`: the sandbox's.
            stdin: At most 16 MiB, followed by end of file. `None`: the null device.
            max_output_bytes: Bytes kept of each stream, 0 to 256 MiB: the first and the last
                half. More is counted, and `truncated` says so.
            exec_id: Name of this exec; an id that exists is attached to, not run again.
                `None`: a fresh one.

        Returns:
            Exit code, output and cause, also if the command failed or met a limit.

        Raises:
            InvalidArgumentError: If an argument is wrong. Nothing was sent.
            ExecFailedError: If the program could not be started; `step` says where.
            ExecConflictError: If `exec_id` names another command.
            ResourceExhaustedError: If too many execs run.
            SandboxClosedError: If the handle is closed.
            SandboxLostError: If the infrastructure ended the sandbox.
            AgentUnreachableError: If no connection could be made. Nothing ran.
            ConnectionLostError: If reattaching failed for 20 seconds. The command may have run.
        """
        return drive(
            self._sandbox.run(
                command,
                timeout=timeout,
                cwd=cwd,
                env=env,
                user=user,
                stdin=stdin,
                max_output_bytes=max_output_bytes,
                exec_id=exec_id,
            )
        )

    def start(
        self,
        command: Command,
        *,
        timeout: float | None = None,
        cwd: str | bytes | os.PathLike[str] | None = None,
        env: Mapping[str, str | bytes] | None = None,
        user: str | None = None,
        stdin: bool = False,
        exec_id: str | None = None,
    ) -> Process:
        """Start a command and return when it runs. Cancelling the call ends the command.

        Args:
            command: As for `run`.
            timeout: Seconds until every process of the command is killed. `None`: no limit.
            cwd: Absolute working directory. `None`: the sandbox's.
            env: Variables over the sandbox's, each at most 131,071 bytes with its name.
            user: `name`, `uid` or `uid:gid`. `None`: the sandbox's.
            stdin: Whether stdin is a pipe for `write_stdin`. False: the null device.
            exec_id: Name of this exec; an id that exists is attached to, not started again.
                `None`: a fresh one.

        Returns:
            The process, to read from, write to, signal and wait for.

        Raises:
            SandboxError: As `run`.
        """
        return Process(
            drive(
                self._sandbox.start(
                    command,
                    timeout=timeout,
                    cwd=cwd,
                    env=env,
                    user=user,
                    stdin=stdin,
                    exec_id=exec_id,
                )
            )
        )
