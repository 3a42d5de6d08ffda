"""Memory in use on the whole machine, by kind.

Only the machine as a whole sees everything that a sandbox costs: namespaces, mounts, cgroups and
per-CPU data are charged to no process, and not all of them to a cgroup. Pages of files are left
out: they are one copy however many sandboxes read them, and the kernel drops them at need.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# Namespaces and cgroups are taken apart by workers of the kernel after their last process.
_SETTLE = 1.0

KINDS = {
    "anonymous": ("AnonPages",),
    "tmpfs": ("Shmem",),
    "slab": ("Slab",),
    "stacks": ("KernelStack",),
    "page tables": ("PageTables",),
    "per CPU": ("Percpu",),
}


def used_kb() -> dict[str, int]:
    """KiB in use by kind, after a pause; `all` is everything, `other` what no kind explains."""
    time.sleep(_SETTLE)
    if os.geteuid() == 0:
        # Names and inodes that nothing uses any more: noise of whatever else ran.
        _DROP_CACHES.write_text("2")
    lines = (line.split() for line in _MEMINFO.read_text().splitlines())
    info = {name.rstrip(":"): int(value) for name, value, *_ in lines}
    files = info["Buffers"] + info["Cached"] - info["Shmem"]
    used = {kind: sum(info[name] for name in names) for kind, names in KINDS.items()}
    everything = info["MemTotal"] - info["MemFree"] - files
    return {"all": everything, "other": everything - sum(used.values()), **used}


def growth(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """KiB by kind that came between two readings."""
    return {kind: after[kind] - before[kind] for kind in after}
