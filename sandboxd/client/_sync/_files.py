"""The blocking form of the files of a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd.client._blocking import drive
from sandboxd.client._files import DEFAULT_MAX_BYTES

if TYPE_CHECKING:
    from sandboxd.client._files import AsyncFiles, Path
    from sandboxd.types import FileEntry, WriteResult


class Files:
    """The files of a sandbox, as `Sandbox.files`.

    Paths are resolved inside the sandbox, its symlinks included, and never lead out of it.
    A relative one starts at the sandbox's working directory. All calls can also raise what every
    call of a sandbox can: `SandboxLostError`, `SandboxClosedError`, `AgentUnreachableError` and
    `ConnectionLostError`.
    """

    def __init__(self, files: AsyncFiles) -> None:
        """Wrap a sandbox. Use `Sandbox.files`, not this."""
        self._files = files

    def read(
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
        return drive(self._files.read(path, offset=offset, length=length, max_bytes=max_bytes))

    def read_text(
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
        return drive(self._files.read_text(path, encoding=encoding, max_bytes=max_bytes))

    def write(
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
        return drive(self._files.write(path, data, mode=mode, user=user, parents=parents))

    def stat(self, path: Path, *, follow: bool = True) -> FileEntry:
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
        return drive(self._files.stat(path, follow=follow))

    def list(self, path: Path) -> list[FileEntry]:
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
        return drive(self._files.list(path))

    def remove(self, path: Path, *, recursive: bool = False) -> None:
        """Remove a file, a symlink or a directory.

        Args:
            path: Where it is. A symlink is removed, not what it points to.
            recursive: Remove a directory with everything in it.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            DirectoryNotEmptyError: If it is a directory with entries and not `recursive`.
            FileError: If it cannot be removed for another reason.
        """
        drive(self._files.remove(path, recursive=recursive))

    def mkdir(self, path: Path, *, parents: bool = True, mode: int | None = None) -> None:
        """Make a directory.

        Args:
            path: Where.
            parents: Make missing directories above it; one that exists is then no error.
            mode: Permission bits. `None`: 0755.

        Raises:
            SandboxFileExistsError: If the path exists and is no directory, or not `parents`.
            FileError: If it cannot be made for another reason.
        """
        drive(self._files.mkdir(path, parents=parents, mode=mode))
