"""Reading the output of an exec by offsets, over as many connections as it takes."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Literal, cast

from sandboxd._native import ExecEnd, NativeError, attach_request
from sandboxd.client._channel import Repair
from sandboxd.exceptions import InternalError, ResourceExhaustedError, from_native
from sandboxd.types import Output

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sandboxd.client._binding import Binding
    from sandboxd.client._transport import Stream
    from sandboxd.exceptions import SandboxError


class OutputReader:
    """Everything that an exec writes, in order and once. For one reader at a time."""

    def __init__(
        self, binding: Binding, exec_id: str, stdout_offset: int = 0, stderr_offset: int = 0
    ) -> None:
        """Begin at the given offsets; nothing is sent."""
        self.end: ExecEnd | None = None
        """How the exec ended; known when its last output is."""
        self._binding = binding
        self._exec_id = exec_id
        self._stdout = stdout_offset
        self._stderr = stderr_offset
        self._queue: deque[Output] = deque()
        self._stream: Stream[tuple[str, int, bytes] | ExecEnd] | None = None
        self._connection: Hashable = None
        self._repair = Repair(binding.channel, repeatable=True)

    def positions(self) -> tuple[int, int]:
        """Return the offsets of stdout and stderr up to which output was returned."""
        stdout, stderr = self._stdout, self._stderr
        for output in reversed(self._queue):
            if output.stream == "stdout":
                stdout = output.offset
            else:
                stderr = output.offset
        return stdout, stderr

    async def next(self) -> Output | None:
        """Wait for more output; `None` when there is no more, and `end` is known."""
        return await self.next_until(None)

    async def next_until(self, moment: float | None) -> Output | None:
        """Wait for more output as `next`, until a moment of `time.monotonic`.

        Raises:
            TimeoutError: If there was nothing until then.
        """
        while not self._queue:
            if self.end is not None:
                return None
            await self._fill(moment)
        return self._queue.popleft()

    def close(self) -> None:
        """Stop reading."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    async def _fill(self, moment: float | None) -> None:
        transport = self._binding.channel.transport
        try:
            connection = transport.connection()
            if self._stream is None or connection is not self._connection:
                request = attach_request(
                    self._binding.sandbox_id,
                    self._exec_id,
                    self._stdout,
                    self._stderr,
                    False,  # noqa: FBT003  (positional, as every field)
                )
                self._stream = transport.stream(request)
                self._connection = connection
            if moment is None:
                items = await self._stream.receive()
            else:
                within = await self._stream.receive_within(moment - time.monotonic())
                if within is None:
                    raise TimeoutError
                items = within
        except NativeError as native:
            self._stream = None
            error = from_native(native)
            if not self._skip(error):
                await self._repair.after(error)
            return
        self._repair.succeeded()
        if not items:
            raise InternalError(f"output of exec {self._exec_id} stopped before its end")
        for item in items:
            if isinstance(item, ExecEnd):
                self.end = item
            else:
                self._take(*item)

    def _skip(self, error: SandboxError) -> bool:
        """Go on where output is still kept, if that is what the error says.

        The agent keeps the last 8 MiB of each stream while nobody reads. The gap shows in the
        offset of the next piece.
        """
        stream, _, offset = error.reason.partition("_from:")
        if not isinstance(error, ResourceExhaustedError) or not offset.isdigit():
            return False
        if stream == "stdout":
            self._stdout = int(offset)
        else:
            self._stderr = int(offset)
        return True

    def _take(self, stream: str, offset: int, data: bytes) -> None:
        after = offset + len(data)
        if stream == "stdout":
            self._stdout = after
        else:
            self._stderr = after
        self._queue.append(Output(cast("Literal['stdout', 'stderr']", stream), data, offset))


class Kept:
    """The first and the last part of a stream, in bounded memory."""

    def __init__(self, limit: int, start: int = 0) -> None:
        """Keep up to `limit` bytes from offset `start` on, half of them from there."""
        self.truncated = False
        """Whether bytes are missing."""
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._expected = start

    @property
    def position(self) -> int:
        """Offset behind the last byte that was taken in."""
        return self._expected

    def add(self, output: Output) -> None:
        """Take in the next piece."""
        if output.offset != self._expected:
            self.truncated = True
        self._expected = output.offset + len(output.data)
        room = self._head_limit - len(self._head)
        self._head += output.data[:room]
        rest = output.data[room:] if room > 0 else output.data
        if not rest:
            return
        self._tail.append(rest)
        self._tail_size += len(rest)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit and len(self._tail) > 1:
            self._tail_size -= len(self._tail.popleft())
            self.truncated = True

    def value(self) -> bytes:
        """Return the two parts, one after the other."""
        tail = b"".join(self._tail)
        if len(tail) > self._tail_limit:
            self.truncated = True
            tail = tail[len(tail) - self._tail_limit :]
        return bytes(self._head) + tail
