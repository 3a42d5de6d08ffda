"""A shell that keeps its state between commands. Async is the only implementation."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sandboxd._native import run_request, signal_request, start_request
from sandboxd.client import _ids, _shell_lines, _validate
from sandboxd.client._output import Kept, OutputReader
from sandboxd.client._process import DEFAULT_MAX_OUTPUT_BYTES, AsyncProcess
from sandboxd.client._results import exec_result
from sandboxd.client._shell_lines import Answer
from sandboxd.client._stdin import StdinWriter
from sandboxd.exceptions import (
    ExecFailedError,
    ExecNotFoundError,
    InvalidArgumentError,
    PatternNotFoundError,
    SandboxError,
)
from sandboxd.types import Cause, ShellResult

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

    from sandboxd._native import ExecEnd, Request, RunReply
    from sandboxd.client._any_binding import AnyBinding

_SIGINT = 2
_INTERRUPT = b"\x03"
"""What Ctrl-C types: the terminal makes it a SIGINT for whoever is in its foreground."""

_GRACE = 0.5
"""Seconds that a command has to end after it was interrupted, and again after it was killed."""

_HELPER_TIMEOUT = 5.0
"""Seconds for the killing of a command. Above what a machine that is busy with it needs."""

_UNREAD_LIMIT = 1024 * 1024
"""Bytes that `read_until` looks through; older ones are dropped."""

_ANSWER_LIMIT = 4096
"""Bytes kept of what was written to the control socket. An answer has less than a hundred."""


_CLOSED = "the shell is closed: make a new one"
_BUSY = "a command runs in the shell: wait for it first"


class _Running:
    """A command that the shell has been given."""

    def __init__(self, word: str, timeout: float | None, limit: int, offset: int) -> None:
        self.word = word
        self.started = time.monotonic()
        self.deadline = None if timeout is None else self.started + timeout
        self.kept = Kept(limit, offset)
        self.begin = offset
        self.unread = bytearray()
        self.answer: Answer | None = None
        self.timed_out = False
        self.abandoned = False
        """Nobody waits for it any more."""


class AsyncShell:
    """One bash (`sh` where there is none) that runs commands one after the other.

    Directory, variables, functions, options, traps and background jobs stay from one to the next:

        async with sandbox.shell() as shell:
            await shell.run("cd /tmp; greet() { echo hi $1; }; x=1")
            result = await shell.run("greet $x; pwd")

    Stdout and stderr of a command come together, in order. What a command prints is never taken
    for the shell's answer: that comes on a channel of its own. A command that ends the shell
    (`exit`, `exec`, a failure under `set -e`) gets its result with `ended` set, and the next one a
    new shell. It starts with the first command, and ends when it is closed or its sandbox is.

    With a `pty`, commands have a terminal, and `send` types. Without, their stdin is the null
    device.
    """

    def __init__(
        self,
        binding: AnyBinding,
        *,
        cwd: bytes,
        env: list[tuple[bytes, bytes]],
        user: str,
        pty: tuple[int, int] | None,
    ) -> None:
        """Describe a shell. Use `AsyncSandbox.shell`, not this."""
        self._binding = binding
        self._cwd = cwd
        self._env = env
        self._user = user
        self._pty = pty
        self._closed = False
        self._starting = threading.Lock()
        """Held while a command is begun. Nobody waits for it: the second one is refused."""
        self._reading = threading.Lock()
        """Held by the one who takes in what the command writes."""
        self._process: AsyncProcess | None = None
        self._bash = False
        self._running: _Running | None = None
        self._last = Answer(0, "")
        self._said = bytearray()
        """Written to the control socket, and no answer so far."""
        self._end: ExecEnd | None = None

    def __repr__(self) -> str:
        """Show where it is."""
        where = "not started" if self._process is None else f"exec {self._process.exec_id!r}"
        return f"<{type(self).__name__} in sandbox {self._binding.sandbox_id!r}, {where}>"

    async def __aenter__(self) -> Self:
        """Return the shell, without waiting."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the shell."""
        await self.close()

    @property
    def exec_id(self) -> str | None:
        """Name of the exec that the shell is; `None` before its first command and after its end."""
        return None if self._process is None else self._process.exec_id

    async def run(
        self,
        line: str | bytes,
        *,
        timeout: float | None = None,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
    ) -> ShellResult:
        """Run a command in the shell to its end. Cancelling the call interrupts the command.

        Args:
            line: Any text that the shell understands, of several lines too, at most 1 MiB.
            timeout: Seconds until the command is interrupted. If it has not ended half a second
                later, whatever the shell has started is killed, background jobs included; if that
                does not help either, the shell is. `None`: no limit.
            max_output_bytes: Bytes of output kept, 0 to 256 MiB: the first and the last half.

        Returns:
            Exit code and output, also if it failed, met the timeout or ended the shell.

        Raises:
            InvalidArgumentError: If an argument is wrong, another command runs, or the shell is
                closed. Nothing ran.
            ExecFailedError: If a shell could not be started. Nothing ran.
            SandboxClosedError: If the sandbox was closed.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired for 4 seconds.
        """
        await self.start(line, timeout=timeout, max_output_bytes=max_output_bytes)
        try:
            return await self.wait()
        except SandboxError:
            raise
        except BaseException:
            self._abandon()
            raise

    async def start(
        self,
        line: str | bytes,
        *,
        timeout: float | None = None,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
    ) -> None:
        """Begin a command, and return when the shell has it.

        For a command that is talked to: `send` and `read_until` do that, and `wait` has the result.
        The timeout counts from here, and is kept by those that wait.

        Args:
            line: As for `run`.
            timeout: As for `run`.
            max_output_bytes: As for `run`.

        Raises:
            SandboxError: As `run`.
        """
        command = _validate.shell_line(line)
        _validate.nanoseconds("timeout", timeout)
        limit = _validate.count("max_output_bytes", max_output_bytes, 0, _validate.OUTPUT_LIMIT)
        if not self._starting.acquire(blocking=False):
            raise InvalidArgumentError(_BUSY)
        try:
            await self._start(command, timeout, limit)
        finally:
            self._starting.release()

    async def _start(self, command: bytes, timeout: float | None, limit: int) -> None:
        self._check_open()
        if self._running is not None:
            if not self._running.abandoned:
                raise InvalidArgumentError(_BUSY)
            await self._stop()
            self._running = None
        if self._process is None or self._end is not None:
            await self._begin()
        word = _shell_lines.fresh_word()
        message = _shell_lines.command(command, word, self._last, bash=self._bash)
        self._said.clear()
        self._running = _Running(word, timeout, limit, self._reader.positions()[0])
        try:
            await self._input.write(message)
        except ExecNotFoundError:
            # It has ended meanwhile: what it said last is still to be heard.
            pass
        except BaseException:
            self._abandon()
            raise

    async def wait(self) -> ShellResult:
        """Wait for the end of the command that was started. Cancelling the call does not end it.

        Returns:
            As `run`.

        Raises:
            InvalidArgumentError: If no command was started, or another task or thread waits for it
                or reads its output.
            SandboxError: As `run`.
        """
        with self._alone():
            running = self._current()
            while running.answer is None and self._end is None:
                await self._pump(running.deadline)
            return await self._finish(running)

    async def send(self, data: bytes | bytearray | memoryview | str) -> None:
        r"""Type at the terminal. Enter is `\n`.

        Args:
            data: Bytes of any length, or text that is encoded as UTF-8. A terminal that reads lines
                takes at most 4,095 bytes of each.

        Raises:
            InvalidArgumentError: If the shell has no `pty`, or has not started.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired; a part may be typed.
        """
        await self._terminal("send").write_stdin(data)

    async def read_until(
        self, pattern: str | bytes | re.Pattern[bytes], *, timeout: float | None = None
    ) -> bytes:
        r"""Read what the command writes, up to a match. The rest is for the next call.

        What is read here is in the command's result, too.

        Args:
            pattern: Text or bytes to be found as they are, or a compiled regular expression of
                bytes. Among the last MiB that was not read yet.
            timeout: Seconds until the call gives up; the command goes on. `None`: no limit but the
                command's own.

        Returns:
            Everything since the last match, the new match included. Lines of a terminal end in
            `\r\n`.

        Raises:
            InvalidArgumentError: If the pattern is wrong, no command runs, or another task or
                thread waits for it or reads its output.
            PatternNotFoundError: If there is no match before the timeout, or before the command
                ends; `output` has what there is.
            SandboxError: As `run`.
        """
        wanted = _validate.pattern(pattern)
        _validate.nanoseconds("timeout", timeout)
        with self._alone():
            return await self._read_until(wanted, timeout)

    async def _read_until(self, wanted: re.Pattern[bytes], timeout: float | None) -> bytes:
        running = self._current()
        until = None if timeout is None else time.monotonic() + timeout
        while (found := wanted.search(running.unread)) is None:
            if running.answer is not None or self._end is not None:
                raise self._no_match(running, "ended", "the command ended without a match")
            if until is not None and time.monotonic() >= until:
                raise self._no_match(running, "timeout", f"no match within {timeout} s")
            moments = [each for each in (until, running.deadline) if each is not None]
            await self._pump(min(moments, default=None))
        read = bytes(running.unread[: found.end()])
        del running.unread[: found.end()]
        return read

    async def interrupt(self) -> bool:
        """Interrupt the command as Ctrl-C does: its programs get SIGINT, the shell goes on.

        Background jobs are left alone. What follows in the line is given up, but for what follows
        a call of a function. The exit code is that of the interrupted program, or 130 if that is 0.

        Returns:
            Whether there was a shell to tell.

        Raises:
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection broke; it may have been delivered.
        """
        process = self._process
        if process is None:
            return False
        if self._pty is not None:
            try:
                await process.write_stdin(_INTERRUPT)
            except ExecNotFoundError:
                return False
            return True
        return await process.send_signal(_SIGINT)

    async def resize(self, rows: int, columns: int) -> bool:
        """Change the size of the terminal; programs in its foreground get SIGWINCH.

        Args:
            rows: Lines of text, 1 to 65,535.
            columns: Characters of a line, 1 to 65,535.

        Returns:
            Whether it was changed; false when the shell had ended before.

        Raises:
            InvalidArgumentError: If the shell has no `pty`, or has not started.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        return await self._terminal("resize").resize(rows, columns)

    async def close(self) -> None:
        """End the shell and everything that it started. A second time does nothing.

        A command that runs gets its result, with `ended` set and the cause `canceled`.

        Raises:
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        if self._closed:
            return
        self._closed = True
        process, self._process = self._process, None
        if process is None:
            return
        running = self._running
        if not self._starting.locked() and (running is None or running.abandoned):
            self._reader.close()
        # Else somebody reads, or will, up to the end that this makes.
        with suppress(ExecNotFoundError):
            await process.kill()

    async def _begin(self) -> None:
        """Start a shell."""
        name = _ids.fresh("sh")
        request = start_request(
            self._binding.sandbox_id,
            name,
            [b"/bin/sh", b"-c", _shell_lines.START.encode()],
            self._env,
            self._cwd,
            self._user,
            (None, None, None),
            self._pty,
            False,  # noqa: FBT003  (positional, as every field)
            False,  # noqa: FBT003
            True,  # noqa: FBT003
            "spill",
            None,
        )
        try:
            pid, _ = await self._binding.call(request)
        except SandboxError:
            raise
        except BaseException:
            self._binding.post(signal_request(self._binding.sandbox_id, name, 0, True))  # noqa: FBT003  (positional, as every field)
            raise
        self._process = AsyncProcess(self._binding, name, pid, stdin=self._pty is not None)
        self._reader = OutputReader(self._binding, name)
        self._input = StdinWriter(self._binding, name, control=True)
        self._end = None
        self._last = Answer(0, "")
        self._said.clear()
        word = _shell_lines.fresh_word()
        try:
            # By another task or thread, which may have found nothing to end.
            self._check_open()
            await self._input.write(_shell_lines.greeting(word))
            self._bash = (await self._answer_to(word)).flags == "bash"
            if self._bash:
                await self._input.write(_shell_lines.move_stdin())
        except BaseException as error:
            # Half a shell is none.
            self._drop()
            self._binding.post(signal_request(self._binding.sandbox_id, name, 0, True))  # noqa: FBT003  (positional, as every field)
            if self._closed and isinstance(error, ExecNotFoundError):
                raise InvalidArgumentError(_CLOSED) from None
            raise

    async def _answer_to(self, word: str) -> Answer:
        """Wait for an answer to something that is no command."""
        while (answer := _shell_lines.find_answer(self._said, word)) is None:
            if self._end is not None:
                self._check_open()
                code = self._end.exit_code
                raise ExecFailedError(f"the shell ended at once, with {code}", reason="program")
            await self._pump(None)
        return answer

    async def _pump(self, moment: float | None) -> None:
        """Take in the next piece of output, or note that it is over."""
        try:
            output = await self._reader.next_until(moment)
        except TimeoutError:
            running = self._running
            deadline = None if running is None else running.deadline
            if running is not None and deadline is not None and deadline <= time.monotonic():
                running.timed_out = True
                await self._stop()
            return
        running = self._running
        if output is None:
            self._end = self._reader.end
        elif output.stream == "stdout":
            if running is not None:
                running.kept.add(output)
                running.unread += output.data
                if len(running.unread) > 2 * _UNREAD_LIMIT:
                    del running.unread[:-_UNREAD_LIMIT]
        else:
            self._said += output.data
            if running is not None:
                running.answer = _shell_lines.find_answer(self._said, running.word)
            if len(self._said) > 2 * _ANSWER_LIMIT:
                del self._said[:-_ANSWER_LIMIT]

    async def _stop(self) -> None:
        """End the command by ever stronger means, until it is over or the shell is."""
        process, running = self._process, self._running
        if running is None:
            return
        running.deadline = None
        if process is None:
            return
        await process.send_signal(_SIGINT)
        if await self._is_over(running):
            return
        # The image of a sandbox may lack what this needs, and programs may keep it from working.
        with suppress(SandboxError):
            await self._binding.call(self._helper(process.pid))
        if await self._is_over(running):
            return
        await process.kill()
        while self._end is None:
            await self._pump(None)

    async def _is_over(self, running: _Running) -> bool:
        until = time.monotonic() + _GRACE
        while running.answer is None and self._end is None:
            if time.monotonic() >= until:
                return False
            await self._pump(until)
        return True

    def _helper(self, pid: int) -> Request[RunReply]:
        return run_request(
            self._binding.sandbox_id,
            _ids.fresh("ex"),
            [b"/bin/sh", b"-c", _shell_lines.END_BELOW.encode(), b"sh", str(pid).encode()],
            [],
            b"",
            self._user,
            _validate.times(_HELPER_TIMEOUT, None, None),
            None,
            False,  # noqa: FBT003  (positional, as every field)
            None,
            0,
        )

    async def _finish(self, running: _Running) -> ShellResult:
        """Make the result of a command that is over."""
        self._running = None
        end, answer = self._end, running.answer
        ended = end is not None and answer is None
        if ended:
            self._drop()
        elif answer is not None:
            self._last = answer
        code = None if answer is None else answer.status
        cause, signal = Cause.EXITED, None
        if end is not None and answer is None:
            whole = exec_result("", end, b"", b"")
            cause, code, signal = whole.cause, whole.exit_code, whole.signal
        if running.timed_out:
            cause, code = Cause.TIMEOUT, None
        output = running.kept.value()
        return ShellResult(
            cause=cause,
            exit_code=code,
            signal=signal,
            ended=ended,
            output_bytes=output,
            output_total_bytes=running.kept.position - running.begin,
            truncated=running.kept.truncated,
            duration=time.monotonic() - running.started,
        )

    def _abandon(self) -> None:
        """Give the command up without waiting: whoever asked for it was interrupted."""
        running, process = self._running, self._process
        if running is None or process is None:
            return
        running.abandoned = True
        request = signal_request(self._binding.sandbox_id, process.exec_id, _SIGINT, False)  # noqa: FBT003  (positional, as every field)
        self._binding.post(request)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a second reader: each would have a part of the output, and miss the end."""
        if not self._reading.acquire(blocking=False):
            raise InvalidArgumentError("another task or thread waits for the command already")
        try:
            yield
        finally:
            self._reading.release()

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgumentError(_CLOSED)

    def _drop(self) -> None:
        self._reader.close()
        self._process = None

    def _current(self) -> _Running:
        if self._running is None:
            raise InvalidArgumentError("no command runs in the shell: start one first")
        return self._running

    def _terminal(self, call: str) -> AsyncProcess:
        if self._pty is None:
            raise InvalidArgumentError(f"the shell has no terminal: {call} needs shell(pty=True)")
        if self._process is None:
            raise InvalidArgumentError("the shell has not started: start a command first")
        return self._process

    @staticmethod
    def _no_match(running: _Running, reason: str, message: str) -> PatternNotFoundError:
        seen = bytes(running.unread)
        shown = seen[-200:].decode("utf-8", "replace")
        return PatternNotFoundError(
            f"{message}; the output ends in {shown!r}",
            may_have_run=True,
            reason=reason,
            output=seen,
        )
