"""The five ways in which a first attempt is broken on purpose, and how each must be scored."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxd import Cause


@dataclass(frozen=True)
class Flaw:
    """A wrong function body and the cause with which running it must end."""

    name: str
    body: str
    """Replaces the right body; indented as one."""
    cause: Cause
    needs: str | None = None
    """Capability of the machine without which the attempt would do harm, so is not made."""


BUG = Flaw("a bug", "    return None\n", Cause.EXITED)

ENDLESS_LOOP = Flaw("an endless loop", "    while True:\n        pass\n", Cause.TIMEOUT)

MEMORY_HOG = Flaw(
    "a memory hog",
    "    hoard = []\n    while True:\n        hoard.append(bytearray(1 << 20))\n",
    Cause.MEMORY_LIMIT,
    needs="limit.memory",
)

# A fork that fails raises, so that the bomb burns out instead of running into its time limit.
FORK_BOMB = Flaw(
    "a fork bomb",
    "    import os\n    while True:\n        os.fork()\n",
    Cause.PIDS_LIMIT,
    needs="limit.pids",
)

ENDLESS_OUTPUT = Flaw(
    "output without end",
    "    while True:\n        print('all work and no play ' * 1000)\n",
    Cause.OUTPUT_LIMIT,
)

FLAWS = (BUG, ENDLESS_LOOP, MEMORY_HOG, FORK_BOMB, ENDLESS_OUTPUT)
