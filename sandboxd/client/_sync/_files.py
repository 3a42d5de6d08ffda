"""The blocking form of the files of a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING

from sandboxd.client._blocking import drive
from sandboxd.client._files import DEFAULT_MAX_BYTES
from sandboxd.client._sync._file_streams import ArchiveStream, FileStream, FileWatch
from sandboxd.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from sandboxd.client._files import AsyncFiles, Local, Path
    from sandboxd.client._uploads import Content
    from sandboxd.types import ExtractResult, FileEntry, TreeResult, WriteResult


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
            offset: Bytes to skip. Beyond the end: the result is empty. Negative: so many bytes
                before the end, or from the start if there are fewer.
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
            SandboxFileChangedError: If the connection broke, and the file is another one since.
            FileError: If it cannot be read for another reason.
        """
        return drive(self._files.read(path, offset=offset, length=length, max_bytes=max_bytes))

    def stream(self, path: Path, *, offset: int = 0, length: int | None = None) -> FileStream:
        """Open a regular file, or a part of it, to read it as it comes.

        Takes no more memory for a long file than for a short one. To be iterated over at the
        reader's own speed; it holds nobody up.

        Args:
            path: Where it is.
            offset: Bytes to skip; negative: so many bytes before the end. As `read`.
            length: Bytes to read at most. `None`: to the end.

        Returns:
            Its bytes, and its size.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            SandboxIsADirectoryError: If it is a directory.
            NotARegularFileError: If it is a pipe, a socket or a device.
            FileError: If it cannot be read for another reason. Iterating raises it too, and
                `SandboxFileChangedError` if the connection broke and the file is another one since.
        """
        return FileStream(drive(self._files.stream(path, offset=offset, length=length)))

    def download(self, path: Path, local: Local) -> WriteResult:
        """Copy a regular file to this machine, of any size.

        The local file is replaced in one step, once everything is here; if this raises, it is as it
        was. A broken connection is repaired by reading on, never in another file.

        Args:
            path: Where it is.
            local: Where to, on this machine. Its directory must exist.

        Returns:
            Size and hash of what was written here.

        Raises:
            SandboxFileChangedError: If the connection broke, and the file is another one since.
            FileError: If it cannot be read; as `read`.
            OSError: If the local file cannot be written, or is a directory, a device, a pipe or a
                socket, or leads to one.
        """
        return drive(self._files.download(path, local))

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
        data: Content,
        *,
        mode: int | None = None,
        user: str | None = None,
        parents: bool = True,
        protected: bool = False,
    ) -> WriteResult:
        """Write a whole file; nobody ever sees half of it.

        The data goes to a file without a name, which takes the target's place in one step. When
        this returns it has happened; when it raises, the old file is as it was, unless
        `may_have_run` is set. A broken connection is repaired by going on where the agent is: of
        data that can be read only once, 8 MiB are kept for that.

        Args:
            path: Where to.
            data: Bytes of any size; text, which is encoded as UTF-8; a file of this machine that
                is open in binary mode, from where it stands; or an iterable of bytes, for
                `AsyncSandbox` an asynchronous one too.
            mode: Permission bits. `None`: those of the file that is replaced, else 0644.
            user: Owner, as `name`, `uid` or `uid:gid`. `None`: root of the sandbox.
            parents: Make missing directories above it. Those of a protected file always are.
            protected: Hide it: nothing in the sandbox can see or change it but commands that are
                run with `grader=True`. They see it in the place of whatever the sandbox has at this
                path, beside what the sandbox has in the same directory; see `mkdir`. At most
                256 MiB of a sandbox, held in the agent's memory. A relative path starts at the
                sandbox's working directory; no symlink of the sandbox is followed.

        Returns:
            Size and hash of the file, as the agent wrote it. They are of what is there when it
            takes its place; programs in the sandbox can change it after that.

        Raises:
            UnsupportedError: If `protected` and the agent has no capability `grader`.
            DiskFullError: If the sandbox's disk limit leaves no room.
            SandboxIsADirectoryError: If the path is a directory.
            FileError: If it cannot be written for another reason.
        """
        _check_blocking(data)
        return drive(
            self._files.write(
                path, data, mode=mode, user=user, parents=parents, protected=protected
            )
        )

    def upload(
        self,
        local: Local,
        path: Path,
        *,
        mode: int | None = None,
        user: str | None = None,
        parents: bool = True,
    ) -> WriteResult:
        """Copy a file of this machine into the sandbox, of any size; as `write`.

        Args:
            local: Where it is, on this machine.
            path: Where to.
            mode: Permission bits. `None`: those of the file that is replaced, else 0644.
            user: Owner, as `name`, `uid` or `uid:gid`. `None`: root of the sandbox.
            parents: Make missing directories above it.

        Returns:
            Size and hash of the file, as `write`.

        Raises:
            OSError: If the local file cannot be read.
            FileError: If it cannot be written; as `write`.
        """
        return drive(self._files.upload(local, path, mode=mode, user=user, parents=parents))

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

    def exists(self, path: Path) -> bool:
        """Look whether something has this path.

        Args:
            path: Where. A symlink counts if what it points to exists.

        Returns:
            Whether there is something, of any kind.

        Raises:
            FileError: If that cannot be found out.
        """
        return drive(self._files.exists(path))

    def list(self, path: Path, *, recursive: bool = False) -> list[FileEntry]:
        """List a directory.

        Args:
            path: Where it is.
            recursive: List the directories in it too, those that are mounts apart. Names are then
                paths below `path`.

        Returns:
            Its entries, sorted by the bytes of their names; symlinks are not followed.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            SandboxNotADirectoryError: If it is not a directory.
            ResourceExhaustedError: If there are more than 100,000 entries, or 16 MiB of names.
            FileError: If it cannot be listed for another reason.
        """
        return drive(self._files.list(path, recursive=recursive))

    def move(self, path: Path, target: Path, *, replace: bool = False) -> None:
        """Give a file, a symlink or a directory another path, in one step.

        Args:
            path: Where it is. A symlink is moved, not what it points to.
            target: Where to; its directory must exist.
            replace: Take the place of a file that is there, or of an empty directory.

        Raises:
            SandboxFileNotFoundError: If nothing has the path.
            SandboxFileExistsError: If something has the target's, and not `replace`.
            FileFailedError: If it cannot be done in one step, because the two are on different
                file systems, as `/usr` and the rest are, or because a directory is one of the
                template: use `mv` in a command.
            FileError: If it cannot be moved for another reason.
        """
        drive(self._files.move(path, target, replace=replace))

    def read_archive(self, path: Path) -> ArchiveStream:
        """Read a directory as a tar archive in the pax format, as it is made; nothing is kept.

        Names, kinds, permissions, owners, times, links and holes are in it, extended attributes are
        not. Symlinks are not followed, mounts not entered. It is what was there when its turn
        came: programs that run meanwhile may change the rest.

        Args:
            path: Where it is. Of anything else than a directory, it is an archive of that alone.

        Returns:
            The archive's bytes, and how much was left out of it.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            SandboxFileChangedError: While it is iterated over, if a file becomes shorter while it
                is read.
            ResourceExhaustedError: If there are paths above 4,095 bytes, or 64 MiB of names that
                wait for their turn.
            FileError: If it cannot be read for another reason; while it is iterated over, too.
        """
        return ArchiveStream(drive(self._files.read_archive(path)))

    def write_archive(self, path: Path, data: Content, *, user: str | None = None) -> ExtractResult:
        """Unpack a tar archive (ustar, pax or GNU; not compressed) into a directory.

        Each file appears whole or not at all; what has the path of a member and is no directory is
        replaced. If this raises, what was unpacked so far stays. A broken connection is repaired,
        as for `write`.

        Args:
            path: The directory; made if it is missing.
            data: The archive, as for `write`.
            user: Owner of everything, as `name`, `uid` or `uid:gid`. `None`: who the archive says,
                by number.

        Returns:
            Its size, and how many members it had.

        Raises:
            ArchiveRefusedError: If it is no archive, ends early, or has a member that would lead
                out of the directory (by `..`, an absolute path, a symlink on its way, or a hard
                link to outside), that is a device, or whose owner the sandbox does not have.
            DiskFullError: If the sandbox's disk limit leaves no room.
            FileError: If a member cannot be written for another reason.
        """
        _check_blocking(data)
        return drive(self._files.write_archive(path, data, user=user))

    def upload_dir(self, local: Local, path: Path, *, user: str | None = None) -> TreeResult:
        """Copy a directory of this machine, and everything in it, into one of the sandbox.

        It is packed into a temporary file of this machine first. Symlinks are copied as such.

        Args:
            local: Where it is, on this machine.
            path: Where to: the directory that gets its entries; made if it is missing.
            user: Owner, as `name`, `uid` or `uid:gid`. `None`: root of the sandbox.

        Returns:
            How much was copied, and which sockets and devices were not.

        Raises:
            OSError: If something of it cannot be read.
            FileError: If something cannot be written; as `write_archive`.
        """
        return drive(self._files.upload_dir(local, path, user=user))

    def download_dir(self, path: Path, local: Local) -> TreeResult:
        """Copy a directory of the sandbox, and everything in it, into one of this machine.

        Nothing is written outside `local`, whatever the sandbox has prepared. Everything belongs to
        you here, and set-id bits are not kept. What has the path of a member and is no directory
        is replaced. If this raises, what was copied so far stays.

        Args:
            path: Where it is.
            local: Where to, on this machine: the directory that gets its entries; made if it is
                missing.

        Returns:
            How much was copied, and what was not: pipes, sockets, devices, and links that would
            lead out of `local`.

        Raises:
            SandboxNotADirectoryError: If it is not a directory.
            ArchiveRefusedError: If something would be written through a symlink that is in
                `local`, or in place of a directory there.
            FileError: If something cannot be read; as `read_archive`.
            OSError: If something cannot be written here.
        """
        return drive(self._files.download_dir(path, local))

    def watch(self, path: Path, *, recursive: bool = False) -> FileWatch:
        """Watch a directory, or a file, for changes by whomever.

        Watching has begun when this returns. Reading is not told. A file that `write` puts in its
        place is `created`, or `moved_to` where it replaces another one.

        Args:
            path: Where it is.
            recursive: Watch the directories in it too, those that are mounts apart, and those
                that are made later. What is in a new one already is told as `created`, and may be
                told twice.

        Returns:
            The changes, as they happen.

        Raises:
            SandboxFileNotFoundError: If nothing has this path.
            ResourceExhaustedError: If there are more than 8,192 directories in it, or the machine
                has no more watches to give. Iterating raises it too.
            FileError: If it cannot be watched for another reason.
        """
        return FileWatch(drive(self._files.watch(path, recursive=recursive)))

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

    def mkdir(
        self,
        path: Path,
        *,
        parents: bool = True,
        mode: int | None = None,
        protected: bool = False,
    ) -> None:
        """Make a directory.

        Args:
            path: Where.
            parents: Make missing directories above it; one that exists is then no error.
            mode: Permission bits. `None`: 0755.
            protected: Make it for commands that are run with `grader=True`, and hide from them all
                that the sandbox has in it: only protected files are there. Do so for a directory
                that is for tests alone, or a file that is put beside them (such as `conftest.py`)
                takes part in them.

        Raises:
            UnsupportedError: If `protected` and the agent has no capability `grader`.
            SandboxFileExistsError: If the path exists and is no directory, or not `parents`.
            FileError: If it cannot be made for another reason.
        """
        drive(self._files.mkdir(path, parents=parents, mode=mode, protected=protected))


def _check_blocking(data: Content) -> None:
    if isinstance(data, AsyncIterable):
        raise InvalidArgumentError("data must not be asynchronous here: use AsyncSandbox")
