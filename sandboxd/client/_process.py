"""A running command. Async is the only implementation; `_sync/` wraps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sandboxd._native import resize_request, signal_request
from sandboxd.client import _validate
from sandboxd.client._output import Kept, OutputReader, read_range
from sandboxd.client._results import exec_result
from sandboxd.client._stdin import StdinWriter
from sandboxd.client._text import TextDecoder
from sandboxd.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandboxd._native import ExecEnd
    from sandboxd.client._any_binding import AnyBinding
    from sandboxd.types import ExecResult, Output, TextOutput

_SIGTERM = 15
"""The same on every Linux; importing `signal` for it would cost more than this module."""

DEFAULT_MAX_OUTPUT_BYTES = 8 * 1024 * 1024
"""Bytes kept of each stream where the caller names no other number."""


class AsyncProcess:
    """A command that was started, returned by `AsyncSandbox.start`.

    Iterate over it for its output as it comes:

        async for output in process:
            print(output.stream, output.data)

    `text` gives the same in whole characters, `read` any part of what is kept.

    It runs on when this object is dropped, until it ends by itself, is killed, or its sandbox is
    closed. A broken connection is repaired by reading on from the same offset.
    """

    def __init__(
        self,
        binding: AnyBinding,
        exec_id: str,
        pid: int,
        *,
        stdin: bool,
        stdin_offset: int = 0,
        stdin_ended: bool = False,
        offsets: tuple[int, int] = (0, 0),
    ) -> None:
        """Wrap an exec that was started. Use `AsyncSandbox.start` or `attach`, not this."""
        self._binding = binding
        self._exec_id = exec_id
        self._pid = pid
        self._stdin = stdin
        self._stdin_ended = stdin_ended
        self._input = StdinWriter(binding, exec_id, offset=stdin_offset)
        self._reader = OutputReader(binding, exec_id, *offsets)
        self._end: ExecEnd | None = None

    def __repr__(self) -> str:
        """Show what names the process."""
        return (
            f"<{type(self).__name__} {self._exec_id!r} in sandbox "
            f"{self._binding.sandbox_id!r}, pid {self._pid}>"
        )

    @property
    def exec_id(self) -> str:
        """Name of the exec, unique in its sandbox."""
        return self._exec_id

    @property
    def pid(self) -> int:
        """Process number inside the sandbox."""
        return self._pid

    def __aiter__(self) -> AsyncProcess:
        """Iterate over output that was not returned yet. For one reader at a time."""
        return self

    async def __anext__(self) -> Output:
        """Wait for the next piece of output; ends when the process and its output have ended.

        Cancelling it loses nothing: the next call returns the same piece.
        """
        output = await self._reader.next()
        if output is None:
            self._end = self._reader.end
            raise StopAsyncIteration
        return output

    async def text(self) -> AsyncIterator[TextOutput]:
        """Iterate over output that was not returned yet, as text. For one reader at a time.

        Characters are whole, however the bytes came; each stream is decoded on its own. Bytes that
        are no UTF-8 are replaced, and so is a character that ends in what was not kept. A part of
        a character that waits for its rest is lost when iterating is left early.

        Raises:
            SandboxError: As iterating over the process.
        """
        decoder = TextDecoder()
        async for output in self:
            if (piece := decoder.decode(output)) is not None:
                yield piece
        for piece in decoder.finish():
            yield piece

    async def read(
        self,
        stream: Literal["stdout", "stderr"],
        offset: int = 0,
        length: int = DEFAULT_MAX_OUTPUT_BYTES,
    ) -> bytes:
        """Read output that is kept, wherever iterating or `wait` are. Waits for nothing.

        How much is kept depends on the process's `output`; it is forgotten with its result.

        Args:
            stream: `stdout` or `stderr`.
            offset: Bytes of the stream before the first one that is read.
            length: Most bytes to return, up to 256 MiB.

        Returns:
            Bytes from `offset` on: fewer than `length` if fewer are there, or if the next ones are
            not kept. Empty at the end of what was written.

        Raises:
            InvalidArgumentError: If an argument is wrong.
            OutputRangeError: If the byte at `offset` is not kept any more, or `offset` is beyond
                what was written; `kept` says what can be read.
            ExecExpiredError: If the result is not kept any more.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired for 4 seconds.
        """
        return await read_range(
            self._binding,
            self._exec_id,
            _validate.stream(stream),
            _validate.count("offset", offset, 0, _validate.OFFSET_LIMIT),
            _validate.count("length", length, 0, _validate.OUTPUT_LIMIT),
        )

    async def wait(self, *, max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES) -> ExecResult:
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
            ExecExpiredError: If the process ended so long ago that its result is not kept:
                more than a minute, or a thousand execs.
            ConnectionLostError: If the connection could not be repaired for 4 seconds.
        """
        limit = _validate.count("max_output_bytes", max_output_bytes, 0, _validate.OUTPUT_LIMIT)
        stdout_offset, stderr_offset = self._reader.positions()
        kept = {"stdout": Kept(limit, stdout_offset), "stderr": Kept(limit, stderr_offset)}
        if self._end is None:
            # A reader of its own, so that iterating can go on meanwhile.
            reader = OutputReader(self._binding, self._exec_id, stdout_offset, stderr_offset)
            try:
                while (output := await reader.next()) is not None:
                    kept[output.stream].add(output)
            finally:
                reader.close()
            end = reader.end
        else:
            end = self._end
        assert end is not None  # noqa: S101  (a reader returns None only when it knows the end)
        stdout, stderr = kept["stdout"], kept["stderr"]
        cuts = {name: cut for name, each in kept.items() if (cut := each.cut()) is not None}
        hashes: dict[str, str | None] = {}
        if stdout_offset or "stdout" in cuts:
            hashes["stdout"] = end.stdout_sha256 or stdout.hash()
        if stderr_offset or "stderr" in cuts:
            hashes["stderr"] = end.stderr_sha256 or stderr.hash()
        return exec_result(
            self._exec_id, end, stdout.value(), stderr.value(), cuts=cuts, hashes=hashes
        )

    async def write_stdin(self, data: bytes | bytearray | memoryview | str) -> None:
        """Write to stdin, and wait until the process or the pipe has taken it.

        For one writer at a time. Bytes are written once, even over a broken connection.

        Args:
            data: Bytes of any length, or text that is encoded as UTF-8.

        Raises:
            InvalidArgumentError: If the process was started without `stdin=True`, or after
                `close_stdin`.
            ExecNotFoundError: If the process has ended.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired; a part may be written.
        """
        content = _validate.content("data", data)
        self._check_stdin()
        if self._stdin_ended:
            raise InvalidArgumentError("stdin of the process was closed: nothing can follow")
        await self._input.write(content)

    async def close_stdin(self) -> None:
        """Say that there is no more stdin. A second time is no error.

        At a terminal the end-of-file character (`^D`) is typed, which means that to programs that
        read lines; after it nothing can be written.

        Raises:
            InvalidArgumentError: If the process was started without `stdin=True`.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        self._check_stdin()
        if not self._stdin_ended:
            self._stdin_ended = True
            await self._input.close()

    async def send_signal(self, signal: int | str) -> bool:
        """Send a signal to every process of the exec, background children included.

        Args:
            signal: Name, such as "TERM" or "SIGTERM", or number from 1 to 64.

        Returns:
            Whether it was delivered; false when the exec had ended before.

        Raises:
            InvalidArgumentError: If there is no such signal.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection broke; it may have been delivered.
        """
        return await self._signal(_validate.signal(signal), cancel=False)

    async def terminate(self) -> bool:
        """Send SIGTERM to every process of the exec; as `send_signal`."""
        return await self._signal(_SIGTERM, cancel=False)

    async def kill(self) -> bool:
        """End the exec: every process of it dies, and its cause is `canceled`.

        Processes that left their session or were orphaned die too. Returns when it is over.

        Returns:
            Whether it did that; false when the exec had ended before.

        Raises:
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        return await self._signal(0, cancel=True)

    async def resize(self, rows: int, columns: int) -> bool:
        """Change the size of the terminal; programs in its foreground get SIGWINCH.

        Args:
            rows: Lines of text, 1 to 65,535.
            columns: Characters of a line, 1 to 65,535.

        Returns:
            Whether it was changed; false when the exec had ended before.

        Raises:
            InvalidArgumentError: If the process was started without `pty`, or a number is wrong.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        size = _validate.terminal_size(rows, columns)
        request = resize_request(self._binding.sandbox_id, self._exec_id, *size)
        return await self._binding.call(request)

    async def _signal(self, number: int, *, cancel: bool) -> bool:
        request = signal_request(self._binding.sandbox_id, self._exec_id, number, cancel)
        return await self._binding.call(request)

    def _check_stdin(self) -> None:
        if not self._stdin:
            raise InvalidArgumentError(
                "the process has no stdin: start it with `stdin=True` to write to it"
            )
