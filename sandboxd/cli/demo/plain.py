"""The canonical programs as plain subprocesses: what the sandboxes are compared with.

Never the broken attempts: nothing here would stop them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sandboxd import Cause
from sandboxd.cli.demo.concurrency import map_bounded
from sandboxd.cli.demo.rollouts import Played, Tried

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandboxd.cli.demo.plan import Attempt, Rollout


class PlainRunner:
    """Plays rollouts in folders of this machine, with no isolation at all."""

    def __init__(self, python: str) -> None:
        """Prepare to play with the interpreter `python`, a path on this machine."""
        self._python = python

    async def play_all(
        self, rollouts: Sequence[Rollout], *, concurrency: int, on_played: Callable[[], None]
    ) -> list[Played]:
        """Play all rollouts, `concurrency` at a time; results in the order of the rollouts."""

        async def play(rollout: Rollout) -> Played:
            # A few small files, removed at once: not worth the threads of async file calls.
            with tempfile.TemporaryDirectory(prefix="sandboxd-demo-") as folder:
                tried = [await self._try(rollout, each, folder) for each in rollout.attempts]
            on_played()
            return Played(rollout, tuple(tried))

        return await map_bounded(play, rollouts, concurrency=concurrency)

    async def _try(self, rollout: Rollout, attempt: Attempt, folder: str) -> Tried:
        await asyncio.sleep(attempt.think)
        problem = rollout.problem
        _write(folder, "candidate.py", problem.candidate(attempt.body))
        _write(folder, "tests.py", problem.tests("candidate"))
        begin = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            self._python,
            "tests.py",
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await process.communicate()
        seconds = time.perf_counter() - begin
        code = process.returncode
        if code is None or code < 0:
            return Tried(attempt, Cause.SIGNALED, None, seconds)
        return Tried(attempt, Cause.EXITED, code, seconds)


def _write(folder: str, name: str, text: str) -> None:
    Path(folder, name).write_text(text, encoding="utf-8")
