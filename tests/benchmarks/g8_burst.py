"""G8: a thousand sandboxes asked for at once are made about as fast as the kernel makes them."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox
from tests.benchmarks.holder import close_all
from tests.benchmarks.interleave import as_async, interleave
from tests.benchmarks.plan import load_average
from tests.benchmarks.product import PRODUCT, check
from tests.benchmarks.references.probe import Probe
from tests.benchmarks.report import Result, at_least, compare
from tests.benchmarks.stats import summarise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.benchmarks.plan import Plan

PROBE = "probe"
# The kernel goes on taking sandboxes apart after a burst; the next one must not pay for it.
_SETTLE = (1.0, 1.0)
# Beside one worker per core, as many again fill the gaps of waiting for a box's init.
_WORKERS_PER_CORE = 2


async def _first_exec(sandbox: AsyncSandbox) -> None:
    check(await sandbox.run(["/bin/true"]))


def _burst_call(count: int) -> Callable[[], Awaitable[int]]:
    async def call() -> int:
        start = time.perf_counter_ns()
        sandboxes = [AsyncSandbox() for _ in range(count)]
        await asyncio.gather(*map(_first_exec, sandboxes))
        elapsed = time.perf_counter_ns() - start
        await close_all(sandboxes)
        return elapsed

    return call


async def _asynchronous(plan: Plan, count: int) -> Result:
    probe = plan.stack.enter_context(Probe(plan.work))
    workers = _WORKERS_PER_CORE * (os.cpu_count() or 1)
    contestants: dict[str, Callable[[], Awaitable[int]]] = {
        PRODUCT: _burst_call(count),
        PROBE: as_async(lambda: probe.burst(count, workers)),
    }
    load = load_average()
    taken = await interleave(contestants, plan.size(7, 3), warm_up=1, gap=_SETTLE)
    rates = {
        name: summarise([count * 1e9 / elapsed for elapsed in samples])
        for name, samples in taken.items()
    }
    references, ratios = compare(rates, PRODUCT)
    return Result(
        id="G8",
        metric=f"burst of {count} sandboxes, each with its first exec",
        unit="sandboxes/s",
        product=rates[PRODUCT],
        references=references,
        ratios=ratios,
        bounds=(at_least(PROBE, 0.7),),
        load=load,
        note=f"every one of {count} answered, in every burst; all were alive at the same time",
    )


def measure(plan: Plan) -> list[Result]:
    """All claims are sent at once by one client; the probe has four workers on two cores."""
    return [asyncio.run(_asynchronous(plan, plan.size(1000, 200)))]
