"""The blocking forms of the streams of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd.client._blocking import drive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandboxd.client._file_streams import (
        AsyncArchiveStream,
        AsyncFileStream,
        AsyncFileWatch,
    )
    from sandboxd.types import FileEvent


class FileStream:
    """The content of a file, returned by `Files.stream`. Iterate over it for its bytes.

    A broken connection is repaired by reading on from the same offset, of the same version of the
    file.
    """

    def __init__(self, stream: AsyncFileStream) -> None:
        """Wrap the async form. Use `Files`, not this."""
        self._stream = stream

    @property
    def size(self) -> int:
        """Bytes of the whole file when its reading began."""
        return self._stream.size

    @property
    def offset(self) -> int:
        """Where in the file the first bytes were: for a negative `offset`, what it came to."""
        return self._stream.offset

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over bytes that were not returned yet. For one reader at a time."""
        return self

    def __next__(self) -> bytes:
        """Wait for the next bytes, some ten KiB; ends at the end of the file, or of the range."""
        try:
            return drive(self._stream.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Stop reading. Not needed at the end, nor when the stream is dropped."""
        drive(self._stream.close())


class ArchiveStream:
    """A tar archive, returned by `Files.read_archive`. Iterate over it for its bytes.

    A connection that breaks in the middle is an error: an archive is not made twice the same.
    """

    def __init__(self, stream: AsyncArchiveStream) -> None:
        """Wrap the async form. Use `Files`, not this."""
        self._stream = stream

    @property
    def entries(self) -> int | None:
        """Members of the archive, once it has ended."""
        return self._stream.entries

    @property
    def skipped(self) -> int | None:
        """What was left out of it, once it has ended: sockets, devices, and what was gone."""
        return self._stream.skipped

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over bytes that were not returned yet. For one reader at a time."""
        return self

    def __next__(self) -> bytes:
        """Wait for the next bytes; ends at the end of the archive."""
        try:
            return drive(self._stream.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Stop reading. Not needed at the end, nor when the stream is dropped."""
        drive(self._stream.close())


class FileWatch:
    """Changes below a path, returned by `Files.watch`. Iterate over it for `FileEvent`s.

    Ends when what is watched is gone. Events wait in a queue of the kernel's; where it overflows,
    and where a broken connection had to be made again, an event of kind `overflow` says that
    changes were missed. Several changes of the same kind to the same file may be told as one.
    """

    def __init__(self, stream: AsyncFileWatch) -> None:
        """Wrap the async form. Use `Files`, not this."""
        self._stream = stream

    def __iter__(self) -> Iterator[FileEvent]:
        """Iterate over changes that were not returned yet. For one reader at a time."""
        return self

    def __next__(self) -> FileEvent:
        """Wait for the next change; ends when what is watched is gone."""
        try:
            return drive(self._stream.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Stop watching. Not needed when the watch is dropped."""
        drive(self._stream.close())
