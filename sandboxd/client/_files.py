"""Files of a sandbox. Async is the only implementation; `_sync/` wraps it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sandboxd._native import (
    NativeError,
    list_files_request,
    make_dir_request,
    read_file_request,
    remove_file_request,
    stat_file_request,
    write_file_request,
)
from sandboxd.client import _validate
from sandboxd.client._channel import Repair
from sandboxd.client._results import file_entry
from sandboxd.exceptions import ResourceExhaustedError, from_native
from sandboxd.types import WriteResult

if TYPE_CHECKING:
    from sandboxd.client._binding import Binding
    from sandboxd.types import FileEntry

DEFAULT_MAX_BYTES = 1 << 30
"""Bytes that a read returns unless the caller says otherwise: more than any harmless file has."""

_MAX = 2**63 - 1

Path = str | bytes | os.PathLike[str]
"""A path in the sandbox: absolute, or relative to the sandbox's working directory."""


class AsyncFiles:
    """The files of a sandbox, as `AsyncSandbox.files`.

    Paths are resolved inside the sandbox, its symlinks included, and never lead out of it.
    A relative one starts at the sandbox's working directory. All calls can also raise what every
    call of a sandbox can: `SandboxLostError`, `SandboxClosedError`, `AgentUnreachableError` and
    `ConnectionLostError`.
    """

    def __init__(self, binding: Binding) -> None:
        """Wrap a sandbox. Use `AsyncSandbox.files`, not this."""
        self._binding = binding

    async def read(
        self,
        path: Path,
        *,
        offset: int = 0,
        length: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> bytes:
        """Read a regular file, or a part of it.

        Args:
            path: Where it is.
            offset: Bytes to skip. Beyond the end: the result is empty.
            length: Bytes to read at most. `None`: to the end.
            max_bytes: Bytes that the result may have, 1 GiB unless you say otherwise: what runs in
                the sandbox decides how long its files are, and a sparse one costs it nothing.

        Returns:
            The bytes; fewer than `length` where the file ends.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            SandboxIsADirectoryError: If it is a directory.
            NotARegularFileError: If it is a pipe, a socket or a device.
            ResourceExhaustedError: If there are more than `max_bytes` to read.
            FileError: If it cannot be read for another reason.
        """
        checked = _validate.path("path", path)
        start = _validate.count("offset", offset, 0, _MAX)
        rest = None if length is None else _validate.count("length", length, 0, _MAX)
        room = _validate.count("max_bytes", max_bytes, 0, _MAX)
        await self._binding.ready_in_order()
        parts: list[bytes] = []
        repair = Repair(self._binding.channel, repeatable=True)
        while True:
            request = read_file_request(self._binding.sandbox_id, checked, start, rest)
            try:
                stream = self._binding.channel.transport.stream(request)
                try:
                    while items := await stream.receive():
                        size = sum(map(len, items))
                        room -= size
                        if room < 0:
                            raise _too_long(path, max_bytes)
                        parts += items
                        start += size
                        rest = None if rest is None else rest - size
                        repair.succeeded()
                finally:
                    stream.close()
            except NativeError as error:
                await repair.after(from_native(error))
            else:
                return b"".join(parts)

    async def read_text(
        self, path: Path, *, encoding: str = "utf-8", max_bytes: int = DEFAULT_MAX_BYTES
    ) -> str:
        """Read a whole regular file as text; as `read`.

        Args:
            path: Where it is.
            encoding: How its bytes are to be understood. Invalid ones are replaced.
            max_bytes: Bytes that the file may have.

        Returns:
            The text, line ends as they are.

        Raises:
            FileError: As `read`.
            ResourceExhaustedError: As `read`.
        """
        return (await self.read(path, max_bytes=max_bytes)).decode(encoding, "replace")

    async def write(
        self,
        path: Path,
        data: bytes | bytearray | memoryview | str,
        *,
        mode: int | None = None,
        user: str | None = None,
        parents: bool = True,
    ) -> WriteResult:
        """Write a whole file; nobody ever sees half of it.

        The data goes to a temporary file that replaces the target in one step. When this returns
        it has happened; when it raises, the old file is as it was, unless `may_have_run` is set.

        Args:
            path: Where to.
            data: Bytes of any size, or text that is encoded as UTF-8.
            mode: Permission bits. `None`: those of the file that is replaced, else 0644.
            user: Owner, as `name`, `uid` or `uid:gid`. `None`: root of the sandbox.
            parents: Make missing directories above it.

        Returns:
            Size and hash of what was written, as the agent saw it.

        Raises:
            DiskFullError: If the sandbox's disk limit leaves no room.
            SandboxIsADirectoryError: If the path is a directory.
            FileError: If it cannot be written for another reason.
        """
        request = write_file_request(
            self._binding.sandbox_id,
            _validate.path("path", path),
            _validate.content("data", data),
            _validate.mode(mode),
            _validate.user(user),
            parents,
        )
        size, sha256 = await self._binding.call(request)
        return WriteResult(size=size, sha256=sha256.hex())

    async def stat(self, path: Path, *, follow: bool = True) -> FileEntry:
        """Look at a file, a directory or anything else.

        Args:
            path: Where it is.
            follow: Look at what a symlink points to, rather than at the symlink.

        Returns:
            What it is; `name` is the path as given.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            FileError: If it cannot be looked at for another reason.
        """
        request = stat_file_request(self._binding.sandbox_id, _validate.path("path", path), follow)
        return file_entry(await self._binding.call(request))

    async def list(self, path: Path) -> list[FileEntry]:
        """List a directory.

        Args:
            path: Where it is.

        Returns:
            Its entries, sorted by the bytes of their names; symlinks are not followed.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            SandboxNotADirectoryError: If it is not a directory.
            FileError: If it cannot be listed for another reason.
        """
        request = list_files_request(self._binding.sandbox_id, _validate.path("path", path))
        return [file_entry(record) for record in await self._binding.call(request)]

    async def remove(self, path: Path, *, recursive: bool = False) -> None:
        """Remove a file, a symlink or a directory.

        Args:
            path: Where it is. A symlink is removed, not what it points to.
            recursive: Remove a directory with everything in it.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            DirectoryNotEmptyError: If it is a directory with entries and not `recursive`.
            FileError: If it cannot be removed for another reason.
        """
        request = remove_file_request(
            self._binding.sandbox_id, _validate.path("path", path), recursive
        )
        await self._binding.call(request)

    async def mkdir(self, path: Path, *, parents: bool = True, mode: int | None = None) -> None:
        """Make a directory.

        Args:
            path: Where.
            parents: Make missing directories above it; one that exists is then no error.
            mode: Permission bits. `None`: 0755.

        Raises:
            SandboxFileExistsError: If the path exists and is no directory, or not `parents`.
            FileError: If it cannot be made for another reason.
        """
        request = make_dir_request(
            self._binding.sandbox_id,
            _validate.path("path", path),
            parents,
            _validate.mode(mode),
        )
        await self._binding.call(request)


def _too_long(path: Path, max_bytes: int) -> ResourceExhaustedError:
    return ResourceExhaustedError(
        f"{path!r} has more than max_bytes={max_bytes} to read: read it in parts with offset and "
        "length, or pass a larger max_bytes"
    )
