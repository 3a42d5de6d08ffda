"""Content on its way to the agent, in parts: what was not taken for certain is kept, no more.

A part carries the upload's id and its offset, so that it can come again after a broken connection:
the agent skips what it has.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from sandboxd._native import abandon_request
from sandboxd.client import _ids, _validate
from sandboxd.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import BinaryIO

    from sandboxd._native import Request
    from sandboxd.client._any_binding import AnyBinding
    from sandboxd.client._transport import Transport

    Content = (
        bytes
        | bytearray
        | memoryview
        | str
        | BinaryIO
        | Iterable[bytes | bytearray | memoryview | str]
        | AsyncIterable[bytes | bytearray | memoryview | str]
    )

T = TypeVar("T")

PART = 8 * 1024 * 1024
"""Bytes of one part: what is kept of a source that can be read once. Large enough that the pause
between two parts does not count."""


class Source(Protocol):
    """Where content comes from."""

    async def next(self) -> tuple[bytes, int, int, bool]:
        """Return the next part as a range of some bytes, and whether it is the last one."""


class Upload(Generic[T]):
    """One upload: `build` makes the call for a part, from bytes, a range of them, and its place."""

    def __init__(
        self,
        binding: AnyBinding,
        build: Callable[[bytes, int, int, tuple[str, int, bool]], Request[T]],
    ) -> None:
        """Choose an id; nothing is sent."""
        self._binding = binding
        self._build = build
        self._id = _ids.fresh("up")

    async def send(self, source: Source) -> T:
        """Send everything and return the answer to the last part."""
        offset = 0
        try:
            while True:
                data, start, end, is_last = await source.next()
                request = self._build(data, start, end, (self._id, offset, not is_last))
                answer = await self._binding.call(request)
                if is_last:
                    return answer
                offset += end - start
        except BaseException:
            if offset:
                # Otherwise it would take the sandbox's room for another minute.
                request_end = abandon_request(self._binding.sandbox_id, self._id)
                with contextlib.suppress(Exception):
                    self._binding.post(request_end)
            raise


def source(content: Content, transport: Transport) -> Source:
    """Find out what content is.

    Raises:
        InvalidArgumentError: If it is nothing that bytes can be taken from.
    """
    if isinstance(content, (bytes, bytearray, memoryview, str)):
        return _Bytes(_validate.content("data", content))
    if callable(getattr(content, "read", None)):
        return _File(content, transport)  # type: ignore[arg-type]  # (has what is needed of a file)
    if isinstance(content, AsyncIterable):
        return _Pieces(content.__aiter__())
    if isinstance(content, Iterable) and not isinstance(content, Mapping):
        return _Pieces(_each(iter(content)))
    raise InvalidArgumentError(
        "data must be bytes, text, a file opened in binary mode, or an iterable of bytes, "
        f"not {type(content).__name__}"
    )


class _Bytes:
    """All of it is here; parts are not copied."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._start = 0

    async def next(self) -> tuple[bytes, int, int, bool]:
        start = self._start
        end = self._start = min(start + PART, len(self._data))
        return self._data, start, end, end == len(self._data)


class _File:
    """A file of this machine, read a part ahead of nothing."""

    def __init__(self, file: BinaryIO, transport: Transport) -> None:
        self._file = file
        self._transport = transport

    async def next(self) -> tuple[bytes, int, int, bool]:
        data = await self._transport.in_thread(self._read)
        return data, 0, len(data), len(data) < PART

    def _read(self) -> bytes:
        data = self._file.read(PART)
        # Files without a buffer, and pipes, return less than asked for.
        while len(data) < PART and (more := self._file.read(PART - len(data))):
            data += more
        if not isinstance(data, bytes):
            raise InvalidArgumentError("data must be a file that is opened in binary mode")
        return data


class _Pieces:
    """Pieces of any length, put together until there is enough for a part."""

    def __init__(self, pieces: AsyncIterator[Any]) -> None:
        self._pieces = pieces
        self._waiting = bytearray()

    async def next(self) -> tuple[bytes, int, int, bool]:
        is_last = False
        while len(self._waiting) < PART and not is_last:
            piece = await anext(self._pieces, None)
            if piece is None:
                is_last = True
            else:
                self._waiting += _validate.content("each piece of data", piece)
        if len(self._waiting) > PART:
            is_last = False
        data = bytes(self._waiting[:PART])
        del self._waiting[:PART]
        return data, 0, len(data), is_last


async def _each(pieces: Iterator[Any]) -> AsyncIterator[Any]:
    for piece in pieces:
        yield piece
