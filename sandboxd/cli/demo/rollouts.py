"""Rollouts in sandboxes: claim, think, write, run, score, and perhaps again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox, Cause, Limits, SandboxError, Startup
from sandboxd.cli.demo.concurrency import map_bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandboxd.cli.demo.plan import Attempt, Rollout

_MIB = 1 << 20

# Far above what any right solution needs, far below what the machine would notice.
MEMORY = 128 * _MIB
PIDS = 16
OUTPUT = 1 * _MIB


@dataclass(frozen=True)
class Tried:
    """How an attempt ended."""

    attempt: Attempt
    cause: Cause
    exit_code: int | None
    seconds: float
    """From the call to its result, as the caller sees it."""

    @property
    def passed(self) -> bool:
        """Whether the tests found the candidate right."""
        return self.cause is Cause.EXITED and self.exit_code == 0


@dataclass(frozen=True)
class Played:
    """A rollout that was carried out."""

    rollout: Rollout
    tried: tuple[Tried, ...] = ()
    startup: Startup | None = None
    error: str | None = None
    """Failure of the infrastructure, which is never a score."""

    @property
    def solved(self) -> bool:
        """Whether the last attempt passed."""
        return self.error is None and bool(self.tried) and self.tried[-1].passed


class Arena:
    """Plays rollouts and keeps count of the sandboxes that exist at once."""

    def __init__(self, python: str, limits: Limits, *, timeout: float) -> None:
        """Prepare to play.

        Args:
            python: Interpreter, as a path inside the sandboxes.
            limits: Of each sandbox.
            timeout: Seconds for one run of the tests.
        """
        self._python = python
        self._limits = limits
        self._timeout = timeout
        self._sandboxes = 0
        self.peak_sandboxes = 0

    async def play_all(
        self, rollouts: Sequence[Rollout], *, concurrency: int, on_played: Callable[[], None]
    ) -> list[Played]:
        """Play all rollouts, `concurrency` at a time; results in the order of the rollouts."""

        async def play(rollout: Rollout) -> Played:
            played = await self._play_counted(rollout)
            on_played()
            return played

        return await map_bounded(play, rollouts, concurrency=concurrency)

    async def _play_counted(self, rollout: Rollout) -> Played:
        self._sandboxes += 1
        self.peak_sandboxes = max(self.peak_sandboxes, self._sandboxes)
        try:
            return await self._play(rollout)
        except SandboxError as error:
            return Played(rollout, error=f"{type(error).__name__}: {error}")
        finally:
            self._sandboxes -= 1

    async def _play(self, rollout: Rollout) -> Played:
        problem = rollout.problem
        tried = []
        # Usable at once: the sandbox starts while the rollout thinks.
        async with AsyncSandbox(limits=self._limits) as sandbox:
            for attempt in rollout.attempts:
                await asyncio.sleep(attempt.think)
                await sandbox.files.write("candidate.py", problem.candidate(attempt.body))
                await sandbox.files.write("tests.py", problem.tests("candidate"))
                begin = time.perf_counter()
                result = await sandbox.run([self._python, "tests.py"], timeout=self._timeout)
                seconds = time.perf_counter() - begin
                tried.append(Tried(attempt, result.cause, result.exit_code, seconds))
                if tried[-1].passed:
                    break
            return Played(rollout, tuple(tried), sandbox.startup)
