"""A fixed number of execs outstanding, spread over several sandboxes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.benchmarks.references.load import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandboxd import AsyncSandbox


async def run_pass(
    sandboxes: Sequence[AsyncSandbox], mix: Sequence[Sequence[str]], count: int, at_once: int
) -> Pass:
    """Runs the mix over and over, `count` commands in all; each next one in the next sandbox.

    Raises:
        RuntimeError: A command did not exit with 0, or not all of its output was kept.
    """
    numbers = iter(range(count))
    each = [0] * count
    written = 0

    async def caller() -> None:
        nonlocal written
        for number in numbers:
            argv = mix[number % len(mix)]
            start = time.perf_counter_ns()
            result = await sandboxes[number % len(sandboxes)].run(argv)
            each[number] = time.perf_counter_ns() - start
            if not result.ok or result.truncated:
                raise RuntimeError(f"{argv} ended with {result!r}")
            written += len(result.stdout_bytes) + len(result.stderr_bytes)

    start = time.perf_counter_ns()
    await asyncio.gather(*(caller() for _ in range(at_once)))
    return Pass(time.perf_counter_ns() - start, each, written)
