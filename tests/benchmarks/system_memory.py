"""Memory that the kernel uses on the whole machine, by kind.

Only the machine as a whole sees everything that a sandbox costs: namespaces, mounts, cgroups and
per-CPU data are charged to no process, and not all of them to a cgroup. What processes own is left
out here, and read per process instead, so that no other program of the machine is counted. Pages
of files are left out too: they are one copy however many sandboxes read them.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_ZONES = Path("/proc/zoneinfo")
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# Reading it folds what each CPU has counted into the totals.
_REFRESH = Path("/proc/sys/vm/stat_refresh")
# Namespaces and cgroups are taken apart by workers of the kernel after their last process.
_SETTLE = 1.0

_KINDS = {
    "slab": "Slab",
    "kernel stacks": "KernelStack",
    "page tables": "PageTables",
    "per-CPU data": "Percpu",
    "tmpfs": "Shmem",
}


def kernel_kb() -> dict[str, int]:
    """KiB in use by kind, after a pause; `other` is what no kind explains."""
    if os.geteuid() == 0:
        # Names and inodes that nothing uses any more: noise of whatever else ran.
        _DROP_CACHES.write_text("2")
    # After it: what was dropped is free only when every CPU has passed a quiet point.
    time.sleep(_SETTLE)
    if os.geteuid() == 0:
        _REFRESH.read_text()
    lines = (line.split() for line in _MEMINFO.read_text().splitlines())
    info = {name.rstrip(":"): int(value) for name, value, *_ in lines}
    used = {kind: info[name] for kind, name in _KINDS.items()}
    free = info["MemFree"] + _kept_by_cpus_kb()
    files = info["Buffers"] + info["Cached"] - info["Shmem"]
    explained = sum(used.values()) + info["AnonPages"] + files
    return {**used, "other": info["MemTotal"] - free - explained}


def growth(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """KiB by kind that came between two readings."""
    return {kind: after[kind] - before[kind] for kind in after}


def _kept_by_cpus_kb() -> int:
    """Free pages that each CPU keeps for itself: tens of MiB that MemFree does not count."""
    counts = re.findall(r"^ +count: +(\d+)$", _ZONES.read_text(), re.MULTILINE)
    return sum(map(int, counts)) * os.sysconf("SC_PAGE_SIZE") // 1024
