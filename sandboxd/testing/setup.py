"""Where checks run: how a sandbox is made there, and how its processes are counted.

Processes are counted from outside the sandbox, because what a sandbox says about itself can be
part of what is wrong.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sandboxd import AsyncSandbox, agent_info
from sandboxd.testing.check import CheckFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_GRACE = 0.5
"""Seconds between a deadline and the result, on a machine that has nothing else to do."""


class Outside(Protocol):
    """The processes of one sandbox as seen from outside it."""

    def left(self) -> list[str]:
        """Command lines of what lives in the sandbox, its init apart."""

    def zombies(self) -> int:
        """Processes in the sandbox that ended and were not collected."""


class Setup(Protocol):
    """One way to have sandboxes, and what a check must know about it."""

    grace: float
    """Seconds that a result may come after its deadline."""

    def sandbox(self, **options: Any) -> AsyncSandbox:
        """Make a sandbox with these options of `AsyncSandbox`; the check closes it."""

    def has(self, capability: str) -> bool:
        """Whether the agent reports that capability."""

    async def outside(self, sandbox: AsyncSandbox) -> Outside:
        """The processes of `sandbox`, for as long as it lives."""


class LocalSetup:
    """The agent of this machine, as the SDK finds or starts it.

    Args:
        template: Template of the sandboxes.
        grace: Seconds that a result may come after its deadline.
    """

    def __init__(self, template: str = "host", *, grace: float = DEFAULT_GRACE) -> None:
        """Prepare; nothing is started before the first call."""
        self.template = template
        self.grace = grace
        self._capabilities: frozenset[str] | None = None

    def sandbox(self, **options: Any) -> AsyncSandbox:
        """Make a sandbox of the template, unless `options` names another one."""
        return AsyncSandbox(options.pop("template", self.template), **options)

    def has(self, capability: str) -> bool:
        """Whether the agent of this machine reports that capability."""
        if self._capabilities is None:
            self._capabilities = frozenset(
                each.name for each in agent_info().capabilities if each.available
            )
        return capability in self._capabilities

    async def outside(self, sandbox: AsyncSandbox) -> Outside:
        """Find the sandbox's pid namespace among the processes of this machine."""
        result = await sandbox.run(["readlink", "/proc/self/ns/pid"])
        if not result.ok:
            raise CheckFailedError(f"the sandbox does not show its pid namespace: {result.stderr}")
        return PidNamespace(result.stdout.strip())


def load_setup(name: str) -> Setup:
    """Make the set-up that `package.module:name` stands for.

    Args:
        name: A class or function without parameters that returns a `Setup`, or a `Setup` itself.

    Raises:
        ValueError: If the name has no colon.
        ImportError: If there is no such module.
        AttributeError: If it has no such member.
    """
    module, colon, member = name.partition(":")
    if not colon:
        raise ValueError(f"set-up {name!r} must be package.module:name")
    found = getattr(importlib.import_module(module), member)
    setup: Setup = found() if callable(found) else found
    return setup


class PidNamespace:
    """The processes of this machine that are in one pid namespace.

    Needs the right to look at them: root, or the user who made the namespace.

    Args:
        name: As `/proc/PID/ns/pid` shows it: `pid:[4026531836]`.
    """

    def __init__(self, name: str) -> None:
        """Remember the name."""
        self.name = name

    def left(self) -> list[str]:
        """Command lines of what lives in the namespace, its init apart."""
        return [_command(pid) for pid in self._members() if _state(pid) not in {"Z", "X"}]

    def zombies(self) -> int:
        """Processes of the namespace that ended and were not collected."""
        return sum(_state(pid) == "Z" for pid in self._members())

    def init(self) -> int | None:
        """The number that init has on this machine, if it lives."""
        return next((pid for pid in self._all() if _inner(pid) == 1), None)

    def _members(self) -> Iterator[int]:
        return (pid for pid in self._all() if _inner(pid) != 1)

    def _all(self) -> Iterator[int]:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _namespace(int(entry.name)) == self.name:
                yield int(entry.name)


def _namespace(pid: int) -> str:
    # A zombie has no namespaces any more, but its pid namespace is the one of its parent.
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return _namespace_of_the_children(pid)


def _namespace_of_the_children(pid: int) -> str:
    parent = _field(pid, "PPid")
    try:
        return str(Path(f"/proc/{parent}/ns/pid_for_children").readlink()) if parent else ""
    except OSError:
        return ""


def _inner(pid: int) -> int | None:
    numbers = _field(pid, "NSpid").split()
    return int(numbers[-1]) if numbers else None


def _state(pid: int) -> str:
    # A process that is gone counts as gone.
    return (_field(pid, "State") or "X")[0]


def _field(pid: int, name: str) -> str:
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return ""
    for line in status.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return ""


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    return b" ".join(words).decode(errors="replace").strip() or _field(pid, "Name")
