"""The state folder: where the sockets of agents are, kept from other users."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from sandboxd.exceptions import StateUnusableError

if TYPE_CHECKING:
    from pathlib import Path

SOCKETS = "sockets"
"""Folder of the sockets, beneath the state folder; `sandboxd ls` looks here."""


def prepare(state: Path) -> Path:
    """Make the state folder and return its folder of sockets.

    Raises:
        StateUnusableError: If a folder cannot be made, or others can write to it.
    """
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check(state)
        sockets = state / SOCKETS
        sockets.mkdir(mode=0o700, exist_ok=True)
        _check(sockets)
    except OSError as error:
        raise unusable(state, error) from None
    return sockets


def unusable(state: Path, error: OSError) -> StateUnusableError:
    """Build the error for a failure of the system in the state folder."""
    return StateUnusableError(
        f"state folder {state} cannot be used: {error.strerror or error}: "
        "make room or access there, or set SANDBOXD_STATE to another folder"
    )


def _check(folder: Path) -> None:
    """Refuse a folder in which others could reach or replace a socket."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise StateUnusableError(f"state folder {folder} is not a directory: set SANDBOXD_STATE")
    if found.st_uid != os.geteuid():
        raise StateUnusableError(
            f"state folder {folder} belongs to user {found.st_uid}: "
            "set SANDBOXD_STATE to a folder of your own"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise StateUnusableError(
            f"state folder {folder} may be entered by others: run `chmod 700 {folder}`, "
            "or set SANDBOXD_STATE to another folder"
        )


def sweep(sockets: Path) -> None:
    """Remove sockets whose owner was killed before it could."""
    for entry in sockets.glob("*.sock"):
        owner = entry.name.partition("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):  # noqa: PTH110  (a hot start: no Path for it)
            entry.unlink(missing_ok=True)


def nameless_file(state: Path) -> int:
    """Make a file of which nothing remains when its last holder ends, however that ends."""
    try:
        return os.open(state, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        # Some file systems cannot make one.
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):
            raise
    path = state / f"log-{os.getpid()}-{os.urandom(4).hex()}"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    path.unlink()
    return descriptor
