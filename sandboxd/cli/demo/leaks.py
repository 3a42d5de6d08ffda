"""Counting what sandboxes leave behind: from outside, by what the kernel says of the agent.

Nothing here asks the agent, whose own books would not show what it forgot.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_PROC = Path("/proc")
_CGROUP_ROOT = Path("/sys/fs/cgroup")

_SETTLE_SECONDS = 10.0
"""Longest wait for clean-up that goes on after a sandbox was closed. Generous: it is not timed."""

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Holdings:
    """What an agent and its descendants hold of the kernel."""

    processes: int
    mounts: int
    cgroups: int
    namespaces: int
    descriptors: int

    def beyond(self, before: Holdings) -> dict[str, int]:
        """By how much each count is above that of `before`; 0 where it is not."""
        earlier = asdict(before)
        return {name: max(0, count - earlier[name]) for name, count in asdict(self).items()}


def count(agent_pid: int) -> Holdings:
    """Count what the agent with this pid, its descendants and this process hold now."""
    family = _family(agent_pid)
    return Holdings(
        processes=len(family),
        mounts=len(_lines(agent_pid, "mountinfo")) + len(_lines(os.getpid(), "mountinfo")),
        cgroups=_cgroups(agent_pid),
        namespaces=len(set().union(*(_namespaces(pid) for pid in family))),
        descriptors=_descriptors(agent_pid) + _descriptors(os.getpid()),
    )


async def settled(agent_pid: int, *, before: Holdings | None = None) -> Holdings:
    """Count once nothing changes any more, or nothing is above `before`.

    The agent answers a close before it has removed the last cgroup, and refills its stock of
    namespaces when it is idle; both take milliseconds.
    """
    deadline = time.monotonic() + _SETTLE_SECONDS
    last = count(agent_pid)
    while time.monotonic() < deadline:
        if before and not any(last.beyond(before).values()):
            break
        await asyncio.sleep(_POLL_SECONDS)
        now = count(agent_pid)
        if before is None and now == last:
            break
        last = now
    return last


def _family(root: int) -> set[int]:
    """The process and all its descendants."""
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    family = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        if not more:
            return family
        family |= more


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _parent(pid: int) -> int | None:
    with suppress(OSError):
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        # The name, in brackets, may hold anything: the fields are counted from behind it.
        return int(stat.rpartition(")")[2].split()[1])
    return None


def _namespaces(pid: int) -> set[str]:
    with suppress(OSError):
        return {str(entry.readlink()) for entry in (_PROC / str(pid) / "ns").iterdir()}
    return set()


def _lines(pid: int, name: str) -> list[str]:
    with suppress(OSError):
        return (_PROC / str(pid) / name).read_text(encoding="utf-8").splitlines()
    return []


def _descriptors(pid: int) -> int:
    with suppress(OSError):
        return sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
    return 0


def _cgroups(agent_pid: int) -> int:
    """Folders of sandboxes in every cgroup hierarchy, below the folder that names the agent."""
    found = 0
    for folder, folders, _ in os.walk(_CGROUP_ROOT):
        if f"/sandboxd-{agent_pid}-" in f"{folder}/":
            found += sum(name.startswith("sb-") for name in folders)
    return found
