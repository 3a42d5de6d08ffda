"""What a test left behind: a look before, a look after, and the difference in words.

Only what is ours counts, because other programs run on the machine: processes that descend from
the test process, cgroups of agents that descend from it or are dead, our own state folder.
"""

from __future__ import annotations

import gc
import os
import re
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import (
    ZOMBIE,
    Process,
    all_processes,
    descendants,
    namespaces,
    reap_orphans,
)
from tests.support.waiting import wait_until

AGENT_CGROUP = re.compile(r"sandboxd-(\d+)-\d+$")

SETTLE = 5.0
"""Seconds after which something that is still there counts as left behind: cgroups are removed
when the kernel lets go of them, shortly after the last process has ended."""


@dataclass(frozen=True)
class Snapshot:
    """What of ours exists at one moment, each thing as a line of text."""

    things: Counter[str]
    words: dict[str, str]
    """More about a thing: a program may change its own command line, so it is no identity."""

    @classmethod
    def take(cls, state: Path) -> Snapshot:
        """Look at everything of ours.

        Args:
            state: The state folder of the tests.
        """
        things: Counter[str] = Counter()
        ours = descendants()
        words = {_identity(process): f"process {process}" for process in ours}
        things.update(words.keys())
        holders = [os.getpid(), *(each.pid for each in ours if each.name.startswith("sandboxd-"))]
        things.update(f"mount {line}" for pid in holders for line in _mounts(pid))
        seen = {name for each in ours for name in namespaces(each.pid)}
        things.update(f"namespace {name}" for name in seen)
        things.update(f"cgroup {folder}" for folder in agent_cgroups({each.pid for each in ours}))
        things.update(f"state {path.relative_to(state)}" for path in _below(state))
        things.update(f"descriptor {target}" for target in _descriptors(os.getpid()))
        things.update(f"thread {thread.name}" for thread in threading.enumerate())
        return cls(things, words)

    def left_since(self, before: Snapshot) -> list[str]:
        """Lines for what is here now and was not before, sorted."""
        new = (self.things - before.things).elements()
        return sorted(self.words.get(thing, thing) for thing in new)


def check_nothing_left(
    before: Snapshot, state: Path, known_children: set[int], *, failed: bool
) -> None:
    """Fail if something of ours is here that was not before, after a moment to settle.

    A test that `failed` may keep descriptors: its traceback holds what its frames held.
    """
    left: list[str] = []

    def nothing_left() -> bool:
        reap_orphans(known_children)
        left[:] = Snapshot.take(state).left_since(before)
        if failed:
            left[:] = [each for each in left if not each.startswith("descriptor ")]
        if left:
            # Sockets and event loops that only a reference cycle holds are not leaks.
            gc.collect()
        return not left

    try:
        wait_until(nothing_left, within=SETTLE)
    except AssertionError:
        raise AssertionError("left behind:\n  " + "\n  ".join(left)) from None


def agent_cgroups(ours: set[int]) -> list[Path]:
    """Cgroup folders of agents in `ours` and of agents that are dead, with all below them.

    Agents in other groups than this process are not looked at: they are somebody else's.
    """
    living = all_processes().keys()
    found: list[Path] = []
    for hierarchy in _hierarchies():
        for folder, names, _ in os.walk(hierarchy):
            for name in names:
                match = AGENT_CGROUP.match(name)
                if match and (int(match[1]) in ours or int(match[1]) not in living):
                    found.extend(Path(each) for each, _, _ in os.walk(Path(folder, name)))
    # Leaves are kept for the next exec while their sandbox lives: only sandboxes are counted.
    return [path for path in found if not re.fullmatch(r"x\d+", path.name)]


def _hierarchies() -> list[Path]:
    """Our own group in each hierarchy: agents make theirs below the group they are started in."""
    mounts = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if kind in {"cgroup", "cgroup2"}:
            root, at = fields.split(" ")[3:5]
            names = ["" if kind == "cgroup2" else name for name in options.split(",")]
            mounts.update(dict.fromkeys(names, (root, at)))
    found: set[Path] = set()
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        root, at = mounts.get(controllers.split(",")[0], ("", ""))
        if at and own.startswith(root):
            found.add(Path(at + own.removeprefix(root.rstrip("/"))))
    return sorted(found)


def _identity(process: Process) -> str:
    what = "zombie" if process.state == ZOMBIE else "process"
    return f"{what} {process.pid} since {process.started}"


def _mounts(pid: int) -> list[str]:
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []
    # Fields 4 and 5: the root of the mount in its file system and where it is mounted.
    mounts = [line.split()[3:5] for line in lines]
    who = "self" if pid == os.getpid() else str(pid)
    # The kernel mounts tracing by itself when any program of the machine looks for it.
    return [f"{who}: {root} {at}" for root, at in mounts if not at.startswith("/sys/kernel/")]


def _below(state: Path) -> list[Path]:
    # What an agent prepares once for all sandboxes of one share of the processors.
    prepared = re.compile(r"/cpus-\d+(/|$)")
    return [path for path in state.rglob("*") if not prepared.search(str(path))]


def _descriptors(pid: int) -> list[str]:
    found: list[str] = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        # The listing's own descriptor, and pytest's capture files, which it opens at will.
        if not target.startswith(("/proc/", "/tmp/#", "/dev/")) and "(deleted)" not in target:
            found.append(re.sub(r"\[\d+\]", "", target))
    return found
