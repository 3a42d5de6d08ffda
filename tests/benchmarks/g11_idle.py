"""G11: a thousand idle sandboxes do no harm to the one that works."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox
from tests.benchmarks.holder import close_all, make_idle
from tests.benchmarks.interleave import as_async, interleave
from tests.benchmarks.plan import load_average
from tests.benchmarks.processes import agent_below, cpu_seconds, descendants, proportional_kb
from tests.benchmarks.product import PRODUCT, exec_call
from tests.benchmarks.references.spawn import Spawn
from tests.benchmarks.report import Result, at_most, within
from tests.benchmarks.stats import summarise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.benchmarks.plan import Plan

_TRUE = ["/bin/true"]
RAW = "C vfork+exec+wait meanwhile"
NONE = "none idle"
# The launcher fills its pool of namespaces again after a burst; that is work, not idleness.
_SETTLE = 2.0


async def _idle_cpu(seconds: float) -> float:
    """Percent of a core that agent, launcher and inits use while nothing is asked of them."""
    agent = agent_below(os.getpid())
    pids = [agent, *descendants(agent)]
    before = cpu_seconds(pids)
    await asyncio.sleep(seconds)
    return 100 * (cpu_seconds(pids) - before) / seconds


async def _asynchronous(plan: Plan, spawn: Spawn) -> list[Result]:
    count = plan.size(1000, 200)
    rounds = plan.size(500, 300)
    load = load_average()
    async with AsyncSandbox() as worker:
        calls: dict[str, Callable[[], Awaitable[int]]] = {
            PRODUCT: exec_call(worker, _TRUE),
            RAW: as_async(lambda: spawn.plain(_TRUE)),
        }
        before = await interleave(calls, rounds)
        gc.collect()
        memory = proportional_kb(os.getpid(), "Pss_Anon")
        idle = await make_idle(count)
        gc.collect()
        memory = proportional_kb(os.getpid(), "Pss_Anon") - memory
        await asyncio.sleep(_SETTLE)
        cpu = [await _idle_cpu(plan.size(10, 3)) for _ in range(plan.size(3, 1))]
        beside = await interleave(calls, rounds)
        await close_all(idle)
        await asyncio.sleep(_SETTLE)
        after = await interleave(calls, rounds)

    none = summarise(before[PRODUCT] + after[PRODUCT], per_unit=1e6)
    product = summarise(beside[PRODUCT], per_unit=1e6)
    return [
        Result(
            id="G11",
            metric=f"exec /bin/true beside {count} idle sandboxes",
            unit="ms",
            product=product,
            references={NONE: none, RAW: summarise(beside[RAW], per_unit=1e6)},
            ratios={NONE: product.p50 / none.p50},
            bounds=(at_most(NONE, 1.2),),
            load=load,
            note="none idle: half of the samples before, half after",
        ),
        Result(
            id="G11",
            metric=f"CPU of agent, launcher and {count} idle inits",
            unit="% of a core",
            product=summarise(cpu),
            bounds=(within(1, "% of a core"),),
            load=load,
        ),
        Result(
            id="G11",
            metric=f"memory of the Python process per handle, {count} handles",
            unit="KiB",
            product=summarise([memory / count]),
            bounds=(within(20, "KiB"),),
            load=load,
        ),
    ]


def measure(plan: Plan) -> list[Result]:
    """One sandbox works: without others, beside idle ones, and without them again."""
    with Spawn() as spawn:
        return asyncio.run(_asynchronous(plan, spawn))
