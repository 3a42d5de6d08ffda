"""Files as streams: content, archives, changes. Async is the only implementation."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, cast

from sandboxd._native import NativeError, archive_request, watch_request
from sandboxd.client._channel import Repair
from sandboxd.exceptions import from_native
from sandboxd.types import FileEvent

if TYPE_CHECKING:
    from sandboxd.client._any_binding import AnyBinding
    from sandboxd.client._file_content import ContentReader
    from sandboxd.client._transport import Stream
    from sandboxd.types import FileEventKind


class AsyncFileStream:
    """The content of a file, returned by `AsyncFiles.stream`. Iterate over it for its bytes.

    A broken connection is repaired by reading on from the same offset, of the same version of the
    file.
    """

    def __init__(self, reader: ContentReader, first: list[bytes], offset: int) -> None:
        """Wrap what is being read. Use `AsyncFiles.stream`, not this."""
        self._reader = reader
        self._chunks = deque(first)
        self._offset = offset

    @property
    def size(self) -> int:
        """Bytes of the whole file when its reading began."""
        return self._reader.size

    @property
    def offset(self) -> int:
        """Where in the file the first bytes were: for a negative `offset`, what it came to."""
        return self._offset

    def __aiter__(self) -> AsyncFileStream:
        """Iterate over bytes that were not returned yet. For one reader at a time."""
        return self

    async def __anext__(self) -> bytes:
        """Wait for the next bytes, some ten KiB; ends at the end of the file, or of the range."""
        if not self._chunks:
            self._chunks.extend(await self._reader.next())
        if not self._chunks:
            raise StopAsyncIteration
        return self._chunks.popleft()

    async def close(self) -> None:
        """Stop reading. Not needed at the end, nor when the stream is dropped."""
        self._chunks.clear()
        self._reader.close()


class AsyncArchiveStream:
    """A tar archive, returned by `AsyncFiles.read_archive`. Iterate over it for its bytes.

    A connection that breaks in the middle is an error: an archive is not made twice the same.
    """

    def __init__(self, binding: AnyBinding, path: bytes) -> None:
        """Describe what to archive. Use `AsyncFiles.read_archive`, not this."""
        self._binding = binding
        self._path = path
        self._stream: Stream[tuple[bytes, tuple[int, int] | None]] | None = None
        self._chunks: deque[bytes] = deque()
        self._end: tuple[int, int] | None = None

    @property
    def entries(self) -> int | None:
        """Members of the archive, once it has ended."""
        return None if self._end is None else self._end[0]

    @property
    def skipped(self) -> int | None:
        """What was left out of it, once it has ended: sockets, devices, and what was gone."""
        return None if self._end is None else self._end[1]

    def __aiter__(self) -> AsyncArchiveStream:
        """Iterate over bytes that were not returned yet. For one reader at a time."""
        return self

    async def __anext__(self) -> bytes:
        """Wait for the next bytes; ends at the end of the archive."""
        while not self._chunks:
            if self._stream is None:
                raise StopAsyncIteration
            await self._receive()
        return self._chunks.popleft()

    async def close(self) -> None:
        """Stop reading. Not needed at the end, nor when the stream is dropped."""
        self._chunks.clear()
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def _begin(self) -> AsyncArchiveStream:
        await self._binding.ready_in_order()
        repair = Repair(self._binding.channel, repeatable=True)
        while True:
            request = archive_request(self._binding.sandbox_id, self._path)
            try:
                self._stream = self._binding.channel.transport.stream(request)
                self._take(await self._stream.receive())
            except NativeError as error:
                await repair.after(from_native(error))
            else:
                return self

    async def _receive(self) -> None:
        assert self._stream is not None  # noqa: S101  (checked by the caller)
        try:
            self._take(await self._stream.receive())
        except NativeError as error:
            self._stream = None
            raise from_native(error) from None

    def _take(self, items: list[tuple[bytes, tuple[int, int] | None]]) -> None:
        if not items:
            self._stream = None
        for data, end in items:
            self._chunks.append(data)
            self._end = end or self._end


class AsyncFileWatch:
    """Changes below a path, returned by `AsyncFiles.watch`. Iterate over it for `FileEvent`s.

    Ends when what is watched is gone. Events wait in a queue of the kernel's; where it overflows,
    and where a broken connection had to be made again, an event of kind `overflow` says that
    changes were missed. Several changes of the same kind to the same file may be told as one.
    """

    def __init__(self, binding: AnyBinding, path: bytes, *, recursive: bool) -> None:
        """Describe what to watch. Use `AsyncFiles.watch`, not this."""
        self._binding = binding
        self._path = path
        self._recursive = recursive
        self._stream: Stream[list[tuple[str, bytes, bool, int]]] | None = None
        self._events: deque[FileEvent] = deque()
        self._closed = False

    def __aiter__(self) -> AsyncFileWatch:
        """Iterate over changes that were not returned yet. For one reader at a time."""
        return self

    async def __anext__(self) -> FileEvent:
        """Wait for the next change; ends when what is watched is gone."""
        while not self._events:
            if self._closed or self._stream is None:
                raise StopAsyncIteration
            try:
                items = await self._stream.receive()
            except NativeError as error:
                await self._begin(error)
                self._events.append(FileEvent("overflow", "", is_directory=False, cookie=0))
            else:
                self._closed = not items
                self._take(items)
        return self._events.popleft()

    async def close(self) -> None:
        """Stop watching. Not needed when the watch is dropped."""
        self._closed = True
        self._events.clear()
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def _begin(self, error: NativeError | None = None) -> AsyncFileWatch:
        """Watch, and wait until that has begun."""
        await self._binding.ready_in_order()
        repair = Repair(self._binding.channel, repeatable=True)
        while True:
            if error is not None:
                await repair.after(from_native(error))
            request = watch_request(self._binding.sandbox_id, self._path, self._recursive)
            try:
                self._stream = self._binding.channel.transport.stream(request)
                # The first message is empty and says so; events may come with it.
                self._take(await self._stream.receive())
            except NativeError as again:
                error = again
            else:
                return self

    def _take(self, items: list[list[tuple[str, bytes, bool, int]]]) -> None:
        for events in items:
            for kind, path, is_directory, cookie in events:
                name = os.fsdecode(path)
                checked = cast("FileEventKind", kind)
                self._events.append(FileEvent(checked, name, is_directory, cookie))
