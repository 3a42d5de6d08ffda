"""Directories of this machine, to and from tar archives. Everything here blocks.

An archive out of a sandbox is hostile. So its members are looked at before anything is made: a path
has no `..` and is not absolute, no member goes through a symlink, links are made last, and only
those that stay inside.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sandboxd.exceptions import ArchiveRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_MODES = 0o777


def pack(folder: Path, file: BinaryIO) -> tuple[int, list[str]]:
    """Write `folder` to `file` as an archive; how many members, and what was left out.

    Raises:
        OSError: If something in it cannot be read, or `folder` is no directory.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"not a directory: {str(folder)!r}")
    entries = 0
    skipped: list[str] = []

    def choose(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal entries
        if member.isdev() and not member.isfifo():
            skipped.append(member.name)
            return None
        # Numbers of this machine's users mean nothing in a sandbox.
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        entries += 1
        return member

    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(folder, arcname=".", recursive=False, filter=choose)
        for parent, folders, names in os.walk(folder):
            below = Path(parent).relative_to(folder)
            folders.sort()
            links = [name for name in folders if Path(parent, name).is_symlink()]
            for name in sorted([*names, *folders]):
                path, inside = Path(parent, name), below / name
                if stat.S_ISSOCK(path.lstat().st_mode):
                    skipped.append(str(inside))
                else:
                    archive.add(path, arcname=str(inside), recursive=False, filter=choose)
            folders[:] = [name for name in folders if name not in links]
    return entries, skipped


def unpack(file: BinaryIO, folder: Path) -> tuple[int, list[str]]:
    """Unpack an archive that a sandbox has made; how many members, and what was left out.

    Raises:
        ArchiveRefusedError: If it is none, or a member would lead out of `folder`.
        OSError: If something cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=file, mode="r:", errorlevel=2) as archive:
            return _Unpacking(archive, folder).run()
    except tarfile.TarError as error:
        raise ArchiveRefusedError(
            f"the archive cannot be unpacked here: {error}", may_have_run=True, reason="malformed"
        ) from None


class _Unpacking:
    """One archive on its way into one folder."""

    def __init__(self, archive: tarfile.TarFile, folder: Path) -> None:
        self._archive = archive
        self._folder = folder
        self._entries = 0
        self._skipped: list[str] = []
        self._real: set[Path] = {folder}
        """Folders that are known to be no links."""

    def run(self) -> tuple[int, list[str]]:
        folders: list[tuple[Path, tarfile.TarInfo]] = []
        links: list[tuple[Path, Sequence[str], tarfile.TarInfo]] = []
        for member in self._archive:
            parts = self._parts(member.name)
            path = self._folder.joinpath(*parts)
            if member.isdir():
                self._make_folder(parts, member.name)
                folders.append((path, member))
            elif member.issym():
                links.append((path, parts, member))
                continue
            elif member.isreg() or member.islnk():
                self._make_folder(parts[:-1], member.name)
                self._make_file(path, member)
            else:
                self._skipped.append(member.name)
                continue
            self._entries += 1
        for path, inside, member in links:
            if _stays_inside(inside, member.linkname):
                self._make_folder(inside[:-1], member.name)
                self._clear(path, member.name)
                path.symlink_to(member.linkname)
                os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)
                self._entries += 1
            else:
                self._skipped.append(member.name)
        # The inner ones first: they are what changes the times of the outer ones.
        for path, member in reversed(folders):
            path.chmod(member.mode & _MODES | _FOLDER_MODE)
            os.utime(path, (member.mtime, member.mtime))
        return self._entries, self._skipped

    def _parts(self, name: str) -> list[str]:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts:
            raise ArchiveRefusedError(
                f"member {name!r} leads out of the directory; {self._entries} members before it "
                "were unpacked",
                may_have_run=True,
                reason="escapes",
            )
        return parts

    def _make_folder(self, parts: Sequence[str], member: str) -> None:
        path = self._folder
        for part in parts:
            path /= part
            if path in self._real:
                continue
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=_FOLDER_MODE | 0o755)
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise ArchiveRefusedError(
                    f"member {member!r} leads through {str(path)!r}, which is no directory; "
                    f"{self._entries} members before it were unpacked",
                    may_have_run=True,
                    reason="escapes",
                )
            self._real.add(path)

    def _make_file(self, path: Path, member: tarfile.TarInfo) -> None:
        self._clear(path, member.name)
        if member.islnk():
            parts = self._parts(member.linkname)
            self._make_folder(parts[:-1], member.name)
            source = self._folder.joinpath(*parts)
            if not source.is_symlink() and source.is_file():
                os.link(source, path)
            else:
                self._entries -= 1
                self._skipped.append(member.name)
            return
        # Also knows sparse files.
        self._archive.makefile(member, str(path))
        path.chmod(member.mode & _MODES | _FILE_MODE)
        os.utime(path, (member.mtime, member.mtime))

    def _clear(self, path: Path, member: str) -> None:
        try:
            path.unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):
            raise ArchiveRefusedError(
                f"member {member!r} would take the place of directory {str(path)!r}",
                may_have_run=True,
                reason="escapes",
            ) from None


def _stays_inside(parts: Sequence[str], target: str) -> bool:
    """Whether a link at `parts` leads to nowhere but the folder, whatever other links there are.

    `..` is taken at its start only, where folders that are no links are above it; after that a
    path can go further in, or through links of which the same is true.
    """
    if not target or target.startswith("/"):
        return False
    steps = [step for step in target.split("/") if step not in ("", ".")]
    up = 0
    while up < len(steps) and steps[up] == "..":
        up += 1
    return ".." not in steps[up:] and up < len(parts)
