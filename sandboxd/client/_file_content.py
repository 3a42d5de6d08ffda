"""The content of one file as it arrives. A broken connection is repaired by reading on.

Invariant: everything that is returned is of one version of the file. The agent names it with the
first bytes, and is asked for that one when the reading has to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd._native import NativeError, read_file_request
from sandboxd.client._channel import Repair
from sandboxd.exceptions import from_native

if TYPE_CHECKING:
    from sandboxd.client._any_binding import AnyBinding
    from sandboxd.client._transport import Stream

    Item = tuple[bytes, tuple[int, int, bytes] | None]


class ContentReader:
    """A regular file that is being read, or a part of one."""

    def __init__(self, binding: AnyBinding, path: bytes, offset: int, length: int | None) -> None:
        """Describe what to read; a negative offset counts from the end. Nothing is sent."""
        self.offset = max(offset, 0)
        """Where the next bytes are; right once the first have arrived."""
        self.size = 0
        """Bytes of the file when its reading began; known once the first have arrived."""
        self._binding = binding
        self._path = path
        self._tail = -offset if offset < 0 else None
        self._rest = length
        self._version = b""
        self._stream: Stream[Item] | None = None
        self._repair: Repair | None = None
        self._ended = False

    async def next(self) -> list[bytes]:
        """Wait for the next bytes; an empty list is the end."""
        while not self._ended:
            try:
                if self._stream is None:
                    self._stream = self._open()
                items = await self._stream.receive()
            except NativeError as error:
                await self._broken(error)
                continue
            self._repair = None
            if not items:
                self._ended = True
                self.close()
            elif chunks := [data for data, known in items if self._took(data, known)]:
                return chunks
            elif self._rest != 0:
                # An empty part: nothing follows, but an error may.
                continue
        return []

    async def begin(self) -> list[bytes]:
        """Wait for the first bytes, once the sandbox is ready."""
        await self._binding.ready_in_order()
        return await self.next()

    def close(self) -> None:
        """Stop reading."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self) -> Stream[Item]:
        request = read_file_request(
            self._binding.sandbox_id,
            self._path,
            self.offset,
            self._rest,
            self._tail,
            self._version,
        )
        return self._binding.channel.transport.stream(request)

    def _took(self, data: bytes, known: tuple[int, int, bytes] | None) -> bool:
        """Count bytes that have arrived; whether there are any."""
        if known is not None and not self._version:
            self.offset, self.size, self._version = known
            self._tail = None
        self.offset += len(data)
        if self._rest is not None:
            self._rest -= len(data)
        return bool(data)

    async def _broken(self, error: NativeError) -> None:
        self.close()
        if self._repair is None:
            self._repair = Repair(self._binding.channel, repeatable=True)
        await self._repair.after(from_native(error))
