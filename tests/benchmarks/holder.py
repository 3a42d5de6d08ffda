"""A process of its own that holds idle sandboxes: `python -m tests.benchmarks.holder`.

It says `imported`, then makes as many sandboxes as a line of its input says, says `held` with its
own growth in KiB, and ends, sandboxes and agent with it, when its input does.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox
from tests.benchmarks.processes import proportional_kb

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

# Claims on their way at once: enough to keep both sides busy, without a queue.
_AT_ONCE = 32


async def make_idle(count: int) -> list[AsyncSandbox]:
    """Makes `count` sandboxes and waits until each is ready."""
    sandboxes: list[AsyncSandbox] = []
    while len(sandboxes) < count:
        batch = [AsyncSandbox() for _ in range(min(_AT_ONCE, count - len(sandboxes)))]
        await asyncio.gather(*(sandbox.ready() for sandbox in batch))
        sandboxes += batch
    return sandboxes


async def close_all(sandboxes: list[AsyncSandbox]) -> None:
    """Ends sandboxes, all at once."""
    await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))


class Holder:
    """The same, seen from the process that measures."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("imported")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=60)

    @property
    def pid(self) -> int:
        """The process that the agent belongs to."""
        return self._process.pid

    def hold(self, count: int) -> int:
        """Makes idle sandboxes; returns by how many KiB the Python process grew."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return int(self._expect("held"))

    def _expect(self, word: str) -> str:
        assert self._process.stdout is not None
        said, _, rest = self._process.stdout.readline().partition(" ")
        if said.strip() != word:
            raise RuntimeError(f"the holder said {said!r} instead of {word!r}")
        return rest


async def _main() -> None:
    print("imported", flush=True)  # noqa: T201  (its answer)
    count = int(await asyncio.to_thread(sys.stdin.readline))
    before = proportional_kb(os.getpid(), "Pss_Anon")
    sandboxes = await make_idle(count)
    grown = proportional_kb(os.getpid(), "Pss_Anon") - before
    print(f"held {grown}", flush=True)  # noqa: T201  (its answer)
    await asyncio.to_thread(sys.stdin.read)
    await close_all(sandboxes)


if __name__ == "__main__":
    asyncio.run(_main())
