"""Reading the output of an exec by offsets, over as many connections as it takes."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Literal, cast

from sandboxd._native import ExecEnd, NativeError, attach_request, read_output_request
from sandboxd.client._channel import Repair
from sandboxd.exceptions import InternalError, OutputRangeError, from_native
from sandboxd.types import Output

if TYPE_CHECKING:
    import hashlib
    from collections.abc import Hashable

    from sandboxd.client._any_binding import AnyBinding
    from sandboxd.client._transport import Stream
    from sandboxd.exceptions import SandboxError


class OutputReader:
    """Everything that an exec writes, in order and once. For one reader at a time."""

    def __init__(
        self, binding: AnyBinding, exec_id: str, stdout_offset: int = 0, stderr_offset: int = 0
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

        The gap shows in the offset of the next piece.
        """
        if not isinstance(error, OutputRangeError):
            return False
        current = self._stdout if error.stream == "stdout" else self._stderr
        later = [start for start, _ in error.kept if start > current]
        if not later:
            return False
        if error.stream == "stdout":
            self._stdout = later[0]
        else:
            self._stderr = later[0]
        return True

    def _take(self, stream: str, offset: int, data: bytes) -> None:
        after = offset + len(data)
        if stream == "stdout":
            self._stdout = after
        else:
            self._stderr = after
        self._queue.append(Output(cast("Literal['stdout', 'stderr']", stream), data, offset))


async def read_range(
    binding: AnyBinding, exec_id: str, stream: str, offset: int, length: int
) -> bytes:
    """Read what is there of one stream, from `offset` on, without waiting for more."""
    transport = binding.channel.transport
    parts: list[bytes] = []
    position, end = offset, offset + length
    repair = Repair(binding.channel, repeatable=True)
    while True:
        request = read_output_request(binding.sandbox_id, exec_id, stream, position, end - position)
        try:
            reading = transport.stream(request)
            while items := await reading.receive():
                for item in items:
                    # Nothing is put together that does not belong together.
                    if isinstance(item, ExecEnd) or item[1] != position:
                        reading.close()
                        return b"".join(parts)
                    parts.append(item[2])
                    position += len(item[2])
        except NativeError as native:
            error = from_native(native)
            if parts and isinstance(error, OutputRangeError):
                # What follows was given up while this was read.
                return b"".join(parts)
            await repair.after(error)
        else:
            return b"".join(parts)


class Kept:
    """The first and the last part of a stream, in bounded memory."""

    def __init__(self, limit: int, start: int = 0) -> None:
        """Keep up to `limit` bytes from offset `start` on, half of them from there."""
        self._limit = limit
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._start = start
        self._expected = start
        self._gap: int | None = None
        """Bytes that were kept when the agent left some out for the first time."""
        self._hash: hashlib._Hash | None = None

    @property
    def truncated(self) -> bool:
        """Whether bytes are missing, among those from the start on."""
        return self._gap is not None or self._expected - self._start > self._limit

    @property
    def position(self) -> int:
        """Offset behind the last byte that was taken in."""
        return self._expected

    def add(self, output: Output) -> None:
        """Take in the next piece."""
        if output.offset != self._expected and self._gap is None:
            self._gap = len(self._head) + self._tail_size
        self._expected = output.offset + len(output.data)
        self._update_hash(output.data)
        room = self._head_limit - len(self._head)
        self._head += output.data[:room]
        rest = output.data[room:] if room > 0 else output.data
        if not rest:
            return
        self._tail.append(rest)
        self._tail_size += len(rest)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit and len(self._tail) > 1:
            self._tail_size -= len(self._tail.popleft())

    def value(self) -> bytes:
        """Return the two parts, one after the other."""
        tail = b"".join(self._tail)
        return bytes(self._head) + tail[max(0, len(tail) - self._tail_limit) :]

    def cut(self) -> tuple[int, int] | None:
        """Return bytes before the gap and bytes that are missing; `None` when none is."""
        if not self.truncated:
            return None
        kept = len(self._head) + min(self._tail_size, self._tail_limit)
        head = len(self._head) if self._gap is None else min(self._gap, len(self._head))
        return head, self._expected - self._start - kept

    def hash(self) -> str | None:
        """Return the hash of the whole stream, where its parts do not tell it.

        To be used if bytes are missing, or were read before the start; `None`: not known.
        """
        return None if self._hash is None else self._hash.hexdigest()

    def _update_hash(self, data: bytes) -> None:
        """Hash from the moment on that bytes are dropped: small outputs cost nothing."""
        if self._start > 0 or self._gap is not None:
            self._hash = None
        elif self._hash is not None:
            self._hash.update(data)
        elif self._expected > self._limit:
            import hashlib  # noqa: PLC0415  (most outputs are never hashed)

            # Nothing was dropped so far.
            self._hash = hashlib.sha256(self._head)
            for part in self._tail:
                self._hash.update(part)
            self._hash.update(data)
