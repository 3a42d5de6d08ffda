"""The blocking form of a running command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sandboxd.client._blocking import drive
from sandboxd.client._process import DEFAULT_MAX_OUTPUT_BYTES
from sandboxd.client._text import TextDecoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandboxd.client._process import AsyncProcess
    from sandboxd.types import ExecResult, Output, TextOutput


class Process:
    """A command that was started, returned by `Sandbox.start`.

    Iterate over it for its output as it comes:

        for output in process:
            print(output.stream, output.data)

    `text` gives the same in whole characters, `read` any part of what is kept.

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

    def text(self) -> Iterator[TextOutput]:
        """Iterate over output that was not returned yet, as text. For one reader at a time.

        Characters are whole, however the bytes came; each stream is decoded on its own. Bytes that
        are no UTF-8 are replaced, and so is a character that ends in what was not kept. A part of
        a character that waits for its rest is lost when iterating is left early.

        Raises:
            SandboxError: As iterating over the process.
        """
        decoder = TextDecoder()
        for output in self:
            if (piece := decoder.decode(output)) is not None:
                yield piece
        yield from decoder.finish()

    def read(
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
        return drive(self._process.read(stream, offset, length))

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
            ExecExpiredError: If the process ended so long ago that its result is not kept:
                more than a minute, or a thousand execs.
            ConnectionLostError: If the connection could not be repaired for 4 seconds.
        """
        return drive(self._process.wait(max_output_bytes=max_output_bytes))

    def write_stdin(self, data: bytes | bytearray | memoryview | str) -> None:
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
        drive(self._process.write_stdin(data))

    def close_stdin(self) -> None:
        """Say that there is no more stdin. A second time is no error.

        At a terminal the end-of-file character (`^D`) is typed, which means that to programs that
        read lines; after it nothing can be written.

        Raises:
            InvalidArgumentError: If the process was started without `stdin=True`.
            SandboxLostError: If the infrastructure ended the sandbox.
            ConnectionLostError: If the connection could not be repaired.
        """
        drive(self._process.close_stdin())

    def send_signal(self, signal: int | str) -> bool:
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

    def resize(self, rows: int, columns: int) -> bool:
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
        return drive(self._process.resize(rows, columns))
