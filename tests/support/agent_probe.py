"""The embedded agent as the kernel sees it: what it holds, and whether that stays flat."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import Process, descendants, find_child

MIB = 1 << 20

FLAT_COUNT = 8
"""Descriptors and threads may differ by so many and still count as before."""

FLAT_BYTES = 64 * MIB
"""Resident memory may grow by so much and still count as before."""


@dataclass(frozen=True)
class Resources:
    """What one process holds at one moment."""

    descriptors: int
    threads: int
    resident: int
    """Bytes."""

    def has_no_more_than(self, before: Resources) -> bool:
        """Whether descriptors and threads have not grown beyond what counts as noise."""
        return (
            self.descriptors <= before.descriptors + FLAT_COUNT
            and self.threads <= before.threads + FLAT_COUNT
        )

    def is_flat_since(self, before: Resources) -> bool:
        """Whether nothing has grown beyond what counts as noise, memory included."""
        return self.has_no_more_than(before) and self.resident <= before.resident + FLAT_BYTES


class AgentProbe:
    """Looks at the agent that a process started.

    Args:
        owner: Pid of the process that uses the SDK. Default: this one.
    """

    def __init__(self, owner: int | None = None) -> None:
        self.owner = os.getpid() if owner is None else owner

    @property
    def process(self) -> Process:
        """The agent; fails when there is none."""
        found = find_child("sandboxd-agent", self.owner)
        if found is None:
            raise AssertionError(f"process {self.owner} has no agent")
        return found

    @property
    def pid(self) -> int:
        """Pid of the agent."""
        return self.process.pid

    @property
    def launcher(self) -> Process:
        """The launcher: the agent's child that makes sandboxes."""
        agent = self.pid
        found = [each for each in descendants(agent) if each.parent == agent]
        if len(found) != 1:
            raise AssertionError(f"the agent has {len(found)} children: {[*map(str, found)]}")
        return found[0]

    def inits(self) -> list[Process]:
        """The inits of all sandboxes: the launcher's children that live on."""
        launcher = self.launcher.pid
        return [each for each in descendants(launcher) if each.parent == launcher]

    def resources(self) -> Resources:
        """What the agent holds now."""
        return resources(self.pid)


def resources(pid: int) -> Resources:
    """What a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return Resources(
        descriptors=_entries(pid, "fd"),
        threads=_entries(pid, "task"),
        resident=pages * os.sysconf("SC_PAGE_SIZE"),
    )


def _entries(pid: int, folder: str) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/{folder}").iterdir())
