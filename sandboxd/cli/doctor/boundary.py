"""The tries to cross the boundary: which program, with which arguments, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox, ExecResult
from sandboxd.cli.doctor import inside
from sandboxd.cli.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandboxd.cli.doctor.planted import Planted

_TIMEOUT = 20.0
"""Seconds for one program: generous, so that only a hang meets it."""

# Absent from a sandbox of template `host`, and telling or powerful where they exist outside.
_PRIVATE_PATHS = (
    "/etc/shadow",
    "/etc/machine-id",
    "/etc/ssh",
    "/root/.ssh",
    "/var/lib/dpkg",
    "/run/docker.sock",
    "/run/systemd",
    "/sys/kernel",
)

_DEFECT = "this is a defect of sandboxd on this machine: do not run untrusted programs, report it"
_INCOMPLETE = "it needs python3 in /usr, and room for it within the default limits"


@dataclass(frozen=True)
class Try:
    """One program that tries to get out."""

    name: str
    tried: str
    program: str
    arguments: Callable[[Planted, str], Sequence[str]]
    """From what is planted outside, and the marker in the agent's environment."""


TRIES = (
    Try(
        "host.files",
        "read files of this machine",
        inside.FILES,
        lambda planted, _: [str(planted.file), *filter(_exists, _PRIVATE_PATHS)],
    ),
    Try(
        "host.environment",
        "find the agent's environment",
        inside.ENVIRONMENT,
        lambda _, marker: [marker[::-1]],
    ),
    Try(
        "host.processes",
        "see and signal processes of this machine",
        inside.PROCESSES,
        # Reversed: the program's own command line must not hold what it looks for.
        lambda planted, _: [planted.token[::-1], str(planted.process)],
    ),
    Try(
        "host.identity",
        "be a user of this machine",
        inside.IDENTITY,
        lambda *_: [],
    ),
    Try(
        "network",
        "reach this machine, the network and the metadata address",
        inside.NETWORK,
        lambda planted, _: [str(planted.port), planted.socket],
    ),
    Try("devices", "open and make devices", inside.DEVICES, lambda *_: []),
    Try("kernel.files", "read and write the kernel's files", inside.KERNEL, lambda *_: []),
    Try("kernel.calls", "make calls for the machine's root", inside.SYSTEM_CALLS, lambda *_: []),
)


async def cross(each: Try, planted: Planted, marker: str) -> Finding:
    """Carry out one try, in a sandbox of its own."""
    arguments = each.arguments(planted, marker)
    argv = ["python3", "-I", "-c", each.program, *arguments]
    async with AsyncSandbox() as sandbox:
        return judge(each, await sandbox.run(argv, timeout=_TIMEOUT))


def judge(each: Try, result: ExecResult) -> Finding:
    """Turn what a program printed into a finding."""
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    crossed = _by_reason([rest for word, *rest in lines if word == "crossed"])
    held = _by_reason([rest for word, *rest in lines if word == "held"])
    if crossed:
        return Finding(each.name, holds=False, tried=each.tried, saw=crossed, remedy=_DEFECT)
    # A program that did not come to its end has not tried everything.
    if not result.ok or not held:
        last_words = result.stderr.strip().rpartition("\n")[2]
        saw = last_words or f"the program ended by {result.cause.value}"
        return Finding(each.name, holds=None, tried=each.tried, saw=saw, remedy=_INCOMPLETE)
    return Finding(each.name, holds=True, tried=each.tried, saw=held)


def _by_reason(seen: Sequence[Sequence[str]]) -> str:
    """What was tried, put together by what came of it, since that is often the same."""
    groups: dict[str, list[str]] = {}
    for what, reason in seen:
        groups.setdefault(reason, []).append(what)
    parts = ((reason, ", ".join(what)) for reason, what in groups.items())
    return "; ".join(f"{what}: {reason}" if reason else what for reason, what in parts)


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return False
