"""The sandbox handle. Async is the only implementation; `_sync/` wraps it."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, TypeVar

from sandboxd._native import (
    claim_request,
    list_execs_request,
    list_sandboxes_request,
    run_request,
    signal_request,
    start_request,
)
from sandboxd.client import _ids, _validate
from sandboxd.client._agent import current_agent
from sandboxd.client._binding import Binding
from sandboxd.client._files import AsyncFiles
from sandboxd.client._output import read_range
from sandboxd.client._process import DEFAULT_MAX_OUTPUT_BYTES, AsyncProcess
from sandboxd.client._results import exec_info, run_result, sandbox_info
from sandboxd.client._shell import AsyncShell
from sandboxd.exceptions import ExecNotFoundError, SandboxError, SandboxNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future
    from types import TracebackType

    from typing_extensions import Self

    from sandboxd.client._agent_base import Agent
    from sandboxd.client._any_binding import AnyBinding
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


_NO_TIMES = (None, None, None)


class AsyncSandbox:
    """An isolated environment for commands and files, usable at once.

    Creating it returns before it exists; calls made meanwhile are sent behind its claim and run in
    order when it is ready. Created where no event loop runs, it is claimed by the first call.

        async with AsyncSandbox() as sandbox:
            result = await sandbox.run("python3 -c 'print(6*7)'", timeout=10)

    The agent that has it is started by the first sandbox of a process and ends with the process;
    `SANDBOXD_SOCKET` names one that runs already. One handle may be used by any number of tasks,
    and by event loops one after the other. After a fork only the process that made it may use it.

    Leave the `async with` block or call `close`; without that it lives until its `ttl`, or until
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
        name = (
            _ids.fresh("sb")
            if sandbox_id is None
            else _validate.identifier("sandbox_id", sandbox_id)
        )
        checked = (
            _validate.template(template),
            _validate.limits(limits),
            _validate.nanoseconds("ttl", ttl),
            _validate.nanoseconds("idle_timeout", idle_timeout),
            _validate.environment(env),
            _validate.directory("cwd", cwd),
            _validate.user(user),
            _validate.labels(labels),
        )
        claim = claim_request(name, *checked)
        self._template = template
        self._binding: AnyBinding
        served_by = url or os.environ.get("SANDBOXD_URL")
        if served_by:
            # Not paid for by those who have an agent of their own.
            from sandboxd.client import _served  # noqa: PLC0415

            body = _served.body(checked, ttl, idle_timeout)
            self._binding = _served.ServedBinding(
                served_by, self._transport, self._wait, name, claim, body
            )
        else:
            self._binding = Binding(
                self._transport(current_agent()), name, claim, shared=sandbox_id is not None
            )
        self._files = AsyncFiles(self._binding)
        self._binding.begin()

    @staticmethod
    def _transport(agent: Agent) -> Transport:
        # Asyncio costs more than all of the package: it is for those who use it.
        from sandboxd.client._loop import LoopTransport  # noqa: PLC0415

        return LoopTransport(agent)

    @staticmethod
    async def _wait(future: Future[T]) -> T:
        from sandboxd.client._loop import wait_for  # noqa: PLC0415  (as above)

        return await wait_for(future)

    def __repr__(self) -> str:
        """Show what names the sandbox."""
        return f"<{type(self).__name__} {self.id!r} of template {self._template!r}>"

    def __del__(self) -> None:
        """Warn of a sandbox that nobody closed; it is not closed by this."""
        # Unset when the constructor raised.
        binding = getattr(self, "_binding", None)
        if binding is not None and binding.is_leaked():
            warnings.warn(
                f"unclosed sandbox {binding.sandbox_id}: use `with` or call close()",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    async def __aenter__(self) -> Self:
        """Return the handle, without waiting."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the sandbox."""
        await self.close()

    @property
    def id(self) -> str:
        """Name of the sandbox, unique on its agent. Known at once."""
        return self._binding.sandbox_id

    @property
    def template(self) -> str:
        """What it is made from."""
        return self._template

    @property
    def files(self) -> AsyncFiles:
        """Its files."""
        return self._files

    @property
    def startup(self) -> Startup:
        """Where the time of its start went; known when `ready` or a call has returned.

        Raises:
            SandboxError: If the sandbox is not ready yet.
        """
        startup = self._binding.startup
        if startup is None:
            raise SandboxError(f"sandbox {self.id} is not ready yet: call ready() first")
        return startup

    async def ready(self) -> None:
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
        await self._binding.ready()

    async def close(self) -> None:
        """End the sandbox and everything in it; nothing of it remains. A second time does nothing.

        Works in every state: before it is ready, while execs run (they raise
        `SandboxClosedError`), after it was lost.

        Raises:
            AgentUnreachableError: If an agent that runs already cannot be reached.
            ConnectionLostError: If the connection could not be repaired.
        """
        await self._binding.close()

    async def info(self) -> SandboxInfo:
        """Return what the agent says about the sandbox.

        Raises:
            SandboxNotFoundError: If it ended so long ago that the agent forgot it.
            SandboxClosedError: If the handle is closed.
            SandboxLostError: If the agent died, and the sandbox with it.
        """
        await self._binding.ready()
        request = list_sandboxes_request({}, True)  # noqa: FBT003  (positional, as every field)
        for record in await self._binding.call(request):
            if record.sandbox_id == self.id:
                return sandbox_info(record)
        raise SandboxNotFoundError(f"sandbox {self.id} is unknown to its agent")

    async def execs(self) -> list[ExecInfo]:
        """Return the execs that run, and those whose results are still kept.

        Raises:
            SandboxClosedError: If the handle is closed.
            SandboxLostError: If the infrastructure ended the sandbox.
        """
        return [exec_info(each) for each in await self._binding.call(list_execs_request(self.id))]

    async def run(
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
        name = _ids.fresh("ex") if exec_id is None else _validate.identifier("exec_id", exec_id)
        # What is left out is not checked: most calls give a command alone, and each step of Python
        # costs several times the usual after a command has run.
        request = run_request(
            self._binding.sandbox_id,
            name,
            _validate.command(command),
            [] if env is None else _validate.environment(env),
            b"" if cwd is None else _validate.directory("cwd", cwd),
            "" if user is None else _validate.user(user),
            _NO_TIMES
            if timeout is idle_output_timeout is cpu_time is None
            else _validate.times(timeout, idle_output_timeout, cpu_time),
            None if pty is None else _validate.pty(pty),
            False if grader is False else _validate.flag("grader", grader),
            None if stdin is None else _validate.stdin(stdin),
            max_output_bytes
            if max_output_bytes is DEFAULT_MAX_OUTPUT_BYTES
            else _validate.count("max_output_bytes", max_output_bytes, 0, _validate.OUTPUT_LIMIT),
        )
        return run_result(name, await self._binding.call(request, begins=True))

    async def start(
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
    ) -> AsyncProcess:
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
        name = _ids.fresh("ex") if exec_id is None else _validate.identifier("exec_id", exec_id)
        request = start_request(
            self._binding.sandbox_id,
            name,
            _validate.command(command),
            _validate.environment(env),
            _validate.directory("cwd", cwd),
            _validate.user(user),
            _validate.times(timeout, idle_output_timeout, cpu_time),
            _validate.pty(pty),
            _validate.flag("grader", grader),
            stdin,
            False,  # noqa: FBT003  (positional, as every field)
            _validate.output_policy(output),
            _validate.output_window(output_window_bytes),
        )
        try:
            pid, _ = await self._binding.call(request, begins=True)
        except SandboxError:
            raise
        except BaseException:
            # Cancelled or interrupted: a start cannot be taken back, and nobody knows the process.
            self._binding.post(signal_request(self.id, name, 0, True))  # noqa: FBT003  (positional, as every field)
            raise
        has_stdin = stdin or bool(pty)
        return AsyncProcess(self._binding, name, pid, stdin=has_stdin)

    def shell(
        self,
        *,
        cwd: str | bytes | os.PathLike[str] | None = None,
        env: Mapping[str, str | bytes] | None = None,
        user: str | None = None,
        pty: Pty | bool | None = None,
    ) -> AsyncShell:
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
        return AsyncShell(
            self._binding,
            cwd=_validate.directory("cwd", cwd),
            env=_validate.environment(env),
            user=_validate.user(user),
            pty=_validate.pty(pty),
        )

    async def attach(
        self,
        exec_id: str,
        *,
        stdout_offset: int | None = None,
        stderr_offset: int | None = None,
    ) -> AsyncProcess:
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
        name = _validate.identifier("exec_id", exec_id)
        offsets = {
            "stdout": _validate.offset("stdout_offset", stdout_offset),
            "stderr": _validate.offset("stderr_offset", stderr_offset),
        }
        await self._binding.ready()
        found = None
        for each in await self._binding.call(list_execs_request(self.id)):
            if each.exec_id == name:
                found = each
        # Of an id that is not in the list this says why, and of an offset whether it can be read.
        for stream, offset in offsets.items():
            if offset is not None or found is None:
                await read_range(self._binding, name, stream, offset or 0, 0)
        if found is None:
            raise ExecNotFoundError(f"sandbox {self.id} has no exec {name!r}")
        return AsyncProcess(
            self._binding,
            name,
            found.pid,
            stdin=found.stdin_offset is not None,
            stdin_offset=found.stdin_offset or 0,
            stdin_ended=found.stdin_ended,
            offsets=(offsets["stdout"] or 0, offsets["stderr"] or 0),
        )
