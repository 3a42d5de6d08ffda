"""The processes that descend from this one, as the kernel knows them.

The test process is a child subreaper: whatever a test orphans becomes its child and is seen.
Nobody but `reap_orphans` may wait for children that `subprocess` does not know.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ZOMBIE = "Z"


@dataclass(frozen=True)
class Process:
    """One process at the moment of a look; the start time tells it from a later same pid."""

    pid: int
    parent: int
    state: str
    started: int
    """Clock ticks after boot."""
    name: str
    command: str

    def __str__(self) -> str:
        return f"{self.pid} [{self.state}] {self.command or self.name}"


def become_subreaper() -> None:
    """Make orphans of this process's descendants its children."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def look(pid: int) -> Process | None:
    """The process `pid` as it is now, or None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return None
    # The name is in parentheses and may itself contain any character.
    name, fields = (
        stat[stat.index("(") + 1 : stat.rindex(")")],
        stat[stat.rindex(")") + 2 :].split(),
    )
    return Process(
        pid=pid,
        parent=int(fields[1]),
        state=fields[0],
        started=int(fields[19]),
        name=name,
        command=command.decode(errors="replace").strip(),
    )


def all_processes() -> dict[int, Process]:
    """Every process of this machine."""
    seen = (look(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit())
    return {process.pid: process for process in seen if process is not None}


def descendants(root: int | None = None) -> list[Process]:
    """Every process below `root` (default: this one), zombies included, in no order."""
    children: dict[int, list[Process]] = {}
    for process in all_processes().values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    pending = [os.getpid() if root is None else root]
    while pending:
        below = children.get(pending.pop(), [])
        found.extend(below)
        pending.extend(process.pid for process in below)
    return found


def reap_orphans(known: set[int]) -> None:
    """Collect children that ended and are not in `known`: nobody else will."""
    for process in descendants():
        if process.parent == os.getpid() and process.state == ZOMBIE and process.pid not in known:
            try:
                os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:
                continue


def find_child(name: str, root: int | None = None) -> Process | None:
    """The first process below `root` whose program has that name."""
    # Linux cuts names to 15 bytes.
    short = name[:15]
    return next((each for each in descendants(root) if each.name == short), None)


def namespaces(pid: int) -> set[str]:
    """The namespaces of a process, as `pid:[4026531836]`; empty when it may not be looked at."""
    found: set[str] = set()
    try:
        found.update(str(each.readlink()) for each in Path(f"/proc/{pid}/ns").iterdir())
    except OSError:
        return found
    return found
