"""The tries to use more than a sandbox's share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox, Cause, Limits, UnsupportedError
from sandboxd.cli.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIB = 1 << 20

_LATEST = 20.0
"""Seconds until a try is ended for good: only where a limit is missing does it get there."""


@dataclass(frozen=True)
class Excess:
    """One program that wants more than its share, and the cause with which it must end."""

    name: str
    tried: str
    limits: Limits
    argv: Sequence[str]
    cause: Cause
    timeout: float = _LATEST


EXCESSES = (
    Excess(
        "limit.memory",
        "take 256 MiB of memory where 64 MiB are allowed",
        Limits(memory=64 * _MIB),
        ["python3", "-c", "bytearray(256 << 20)"],
        Cause.MEMORY_LIMIT,
    ),
    Excess(
        "limit.pids",
        "start 64 processes where 32 are allowed",
        Limits(pids=32),
        ["sh", "-c", "for i in $(seq 64); do sleep 5 & done; wait"],
        Cause.PIDS_LIMIT,
    ),
    Excess(
        "limit.disk",
        "write 64 MiB where 16 MiB are allowed",
        Limits(disk=16 * _MIB),
        ["sh", "-c", "head -c 64M /dev/zero > /tmp/full"],
        Cause.DISK_LIMIT,
    ),
    Excess(
        "limit.output",
        "print without end where 64 KiB are allowed",
        Limits(output=64 << 10),
        ["yes"],
        Cause.OUTPUT_LIMIT,
    ),
    Excess(
        "limit.time",
        "outlive a timeout by setsid and double forks",
        Limits(),
        ["sh", "-c", "setsid sleep 60 & (setsid sh -c 'sleep 60 &'); sleep 60"],
        Cause.TIMEOUT,
        timeout=0.5,
    ),
)

# Prints how many processes there are beside this one and those it descends from: init, and where
# no cgroup can be written, the process that keeps this exec together.
_COUNT = (
    "import os\n"
    "others = {name for name in os.listdir('/proc') if name.isdigit()}\n"
    "pid = str(os.getpid())\n"
    "while pid in others:\n"
    "    others.discard(pid)\n"
    "    pid = open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1]\n"
    "print(len(others))"
)


async def exceed(each: Excess) -> Finding:
    """Carry out one try, in a sandbox with just that limit."""
    try:
        async with AsyncSandbox(limits=each.limits) as sandbox:
            result = await sandbox.run(each.argv, timeout=each.timeout)
            left = await sandbox.run(["python3", "-c", _COUNT])
    except UnsupportedError as error:
        # Nothing ran, so nothing was crossed. The message names what would provide it.
        return Finding(each.name, holds=None, tried=each.tried, saw="refused", remedy=str(error))
    saw = f"ended by {result.cause.value}"
    if result.cause is not each.cause:
        remedy = f"the limit is not enforced: it should have ended by {each.cause.value}"
        return Finding(each.name, holds=False, tried=each.tried, saw=saw, remedy=remedy)
    if each.cause is Cause.TIMEOUT and left.stdout.strip() != "0":
        saw = f"{saw}, but {left.stdout.strip()} processes are left"
        remedy = "processes that hide cannot be ended: see kill.tree above"
        return Finding(each.name, holds=False, tried=each.tried, saw=saw, remedy=remedy)
    return Finding(each.name, holds=True, tried=each.tried, saw=saw)
