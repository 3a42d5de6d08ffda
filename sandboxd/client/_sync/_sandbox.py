"""The blocking form of the sandbox handle."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sandboxd.client._blocking import BlockingTransport, drive, wait_for
from sandboxd.client._process import DEFAULT_MAX_OUTPUT_BYTES
from sandboxd.client._sandbox import AsyncSandbox
from sandboxd.client._sync._files import Files
from sandboxd.client._sync._process import Process
from sandboxd.client._sync._shell import Shell

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from concurrent.futures import Future
    from types import TracebackType

    from typing_extensions import Self

    from sandboxd.client._agent_base import Agent
    from sandboxd.client._transport import Transport
    from sandboxd.types import (
        Command,
        ExecInfo,
        ExecResult,
        Limits,
        OutputPolicy,
        Pty,
        SandboxInfo,
        Startup,
    )


T = TypeVar("T")


class _Driven(AsyncSandbox):
    """The async handle over the transport that blocks."""

    @staticmethod
    def _transport(agent: Agent) -> Transport:
        return BlockingTransport(agent)

    @staticmethod
    async def _wait(future: Future[T]) -> T:
        return await wait_for(future)


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
        url: A control API that it is claimed from, as `sandboxd serve` prints it: `http://HOST:PORT`
            or `unix:/PATH`. `None`: `SANDBOXD_URL`, and without that an agent of this process.

    Raises:
        InvalidArgumentError: If an argument is wrong. Nothing was started.
        AgentMissingError: If the agent's program is missing.
        StateUnusableError: If the state folder cannot be used.
        SocketUntrustedError: If `SANDBOXD_SOCKET` belongs to somebody else.

    What the agent refuses (an unknown template, a limit that the host cannot enforce) is raised by
    `ready` and by every call; so is a `ControlUnreachableError` of an API that does not answer.
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
        url: str | None = None,
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
            url=url,
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
        idle_output_timeout: float | None = None,
        cpu_time: float | None = None,
        cwd: str | bytes | os.PathLike[str] | None = None,
        env: Mapping[str, str | bytes] | None = None,
        user: str | None = None,
        pty: Pty | bool | None = None,
        grader: bool = False,
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
            idle_output_timeout: Seconds without output until the same. `None`: no limit.
            cpu_time: Seconds of CPU of all its processes together until the same. `None`: no limit.
            cwd: Absolute working directory. `None`: the sandbox's.
            env: Variables over the sandbox's, each at most 131,071 bytes with its name.
            user: `name`, `uid` or `uid:gid`. `None`: the sandbox's.
            pty: A terminal as stdin, stdout and stderr, whose output is all stdout. True: of 24
                rows and 80 columns.
            grader: Whether it sees the protected files. Nothing else in the sandbox runs meanwhile.
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
            ConnectionLostError: If reattaching failed for 4 seconds. The command may have run.
        """
        return drive(
            self._sandbox.run(
                command,
                timeout=timeout,
                idle_output_timeout=idle_output_timeout,
                cpu_time=cpu_time,
                cwd=cwd,
                env=env,
                user=user,
                pty=pty,
                grader=grader,
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
        idle_output_timeout: float | None = None,
        cpu_time: float | None = None,
        cwd: str | bytes | os.PathLike[str] | None = None,
        env: Mapping[str, str | bytes] | None = None,
        user: str | None = None,
        pty: Pty | bool | None = None,
        grader: bool = False,
        stdin: bool = False,
        output: OutputPolicy = "spill",
        output_window_bytes: int | None = None,
        exec_id: str | None = None,
    ) -> Process:
        """Start a command and return when it runs. Cancelling the call ends the command.

        Args:
            command: As for `run`.
            timeout: Seconds until every process of the command is killed. `None`: no limit.
            idle_output_timeout: Seconds without output until the same. `None`: no limit.
            cpu_time: Seconds of CPU of all its processes together until the same. `None`: no limit.
            cwd: Absolute working directory. `None`: the sandbox's.
            env: Variables over the sandbox's, each at most 131,071 bytes with its name.
            user: `name`, `uid` or `uid:gid`. `None`: the sandbox's.
            pty: A terminal as stdin, stdout and stderr, whose output is all stdout. True: of 24
                rows and 80 columns.
            grader: Whether it sees the protected files. Nothing else in the sandbox runs meanwhile.
            stdin: Whether stdin is a pipe for `write_stdin`. False: the null device. A terminal
                always takes input.
            output: What becomes of output beyond the window; see `OutputPolicy`.
            output_window_bytes: Bytes kept of each stream in memory, 4,096 to 256 MiB, and half a
                MiB for what is on its way. `None`: 1 MiB. While all windows of the agent together
                have more than 256 MiB, 64 KiB at most.
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
                    idle_output_timeout=idle_output_timeout,
                    cpu_time=cpu_time,
                    cwd=cwd,
                    env=env,
                    user=user,
                    pty=pty,
                    grader=grader,
                    stdin=stdin,
                    output=output,
                    output_window_bytes=output_window_bytes,
                    exec_id=exec_id,
                )
            )
        )

    def shell(
        self,
        *,
        cwd: str | bytes | os.PathLike[str] | None = None,
        env: Mapping[str, str | bytes] | None = None,
        user: str | None = None,
        pty: Pty | bool | None = None,
    ) -> Shell:
        """Return a shell that keeps its state between commands. It starts with the first of them.

        Args:
            cwd: Absolute directory in which it starts. `None`: the sandbox's.
            env: Variables over the sandbox's, each at most 131,071 bytes with its name.
            user: `name`, `uid` or `uid:gid`. `None`: the sandbox's.
            pty: A terminal for its commands, to type at with `send`. True: of 24 rows and 80
                columns. Otherwise their stdin is the null device.

        Raises:
            InvalidArgumentError: If an argument is wrong.
        """
        return Shell(self._sandbox.shell(cwd=cwd, env=env, user=user, pty=pty))

    def attach(
        self,
        exec_id: str,
        *,
        stdout_offset: int | None = None,
        stderr_offset: int | None = None,
    ) -> Process:
        """Find a process that was started before, by this handle or another one, running or ended.

        Iterating over what is returned begins at the offsets. Any number may read one process, each
        at its own speed.

        Args:
            exec_id: Name of the exec. One of `run` will do; of it the first and the last half of
                its `max_output_bytes` are kept.
            stdout_offset: Bytes of stdout before the first one to read. `None`: what is kept is
                read from its beginning, and a gap shows as a jump of the offset.
            stderr_offset: The same of stderr.

        Returns:
            The process. `write_stdin` goes on after what was written so far.

        Raises:
            InvalidArgumentError: If an argument is wrong.
            ExecNotFoundError: If the sandbox never had this exec, as far as is known.
            ExecExpiredError: If it had, and the result is not kept any more.
            OutputRangeError: If an offset that was given is not kept any more, or is beyond what
                was written; `kept` says what can be read.
            SandboxError: As `run`.
        """
        return Process(
            drive(
                self._sandbox.attach(
                    exec_id, stdout_offset=stdout_offset, stderr_offset=stderr_offset
                )
            )
        )
