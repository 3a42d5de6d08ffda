"""G4: many execs outstanding take little more of the machine than the programs themselves."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tests.benchmarks.holder import close_all, make_idle
from tests.benchmarks.interleave import as_async, interleave
from tests.benchmarks.missing import Contestants
from tests.benchmarks.outstanding import run_pass
from tests.benchmarks.plan import load_average
from tests.benchmarks.product import PRODUCT
from tests.benchmarks.references.load import Load
from tests.benchmarks.references.oci import Runtime
from tests.benchmarks.report import Result, at_least, compare
from tests.benchmarks.stats import summarise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.benchmarks.plan import Plan
    from tests.benchmarks.stats import Summary

    Contestant = Callable[[], Awaitable[int]]

RAW = "one C vfork loop per core"
RUNC = "runc exec"

_TRUE = [["/bin/true"]]
_AT_ONCE = 32
# More than cores, since one init starts one program at a time, and fewer than a node has.
_SANDBOXES = 8
# An exec of a container runtime takes too long for as many.
_RUNC_SHARE = 20


def _rates(taken: Mapping[str, list[int]], counts: Mapping[str, int]) -> dict[str, Summary]:
    return {
        name: summarise([counts[name] * 1e9 / elapsed for elapsed in samples])
        for name, samples in taken.items()
    }


async def _asynchronous(plan: Plan, raw: Load) -> list[Result]:
    count = plan.size(2000, 1000)
    cores = os.cpu_count() or 1
    sandboxes = await make_idle(_SANDBOXES)

    async def product() -> int:
        return (await run_pass(sandboxes, _TRUE, count, _AT_ONCE)).elapsed

    def runc() -> Contestant:
        runtime = Runtime("runc", plan.work, plan.stack)
        runtime_load = plan.stack.enter_context(Load([runtime.exec_argv(["/bin/true"])]))
        return as_async(lambda: runtime_load.plain(count // _RUNC_SHARE, _AT_ONCE).elapsed)

    near: dict[str, Contestant] = {
        PRODUCT: product,
        RAW: as_async(lambda: raw.plain(count, cores).elapsed),
    }
    far: Contestants[Contestant] = Contestants()
    far.invite(RUNC, runc)
    counts = {PRODUCT: count, RAW: count, RUNC: count // _RUNC_SHARE}
    load = load_average()
    taken = _rates(await interleave(near, plan.size(15, 3), warm_up=1), counts)
    references, ratios = compare(taken, PRODUCT)
    if far:
        far[PRODUCT] = product
        tools = _rates(await interleave(far, plan.size(3, 1), warm_up=1), counts)
        more, more_ratios = compare(tools, PRODUCT)
        references |= more
        ratios |= more_ratios
    await close_all(sandboxes)
    return [
        Result(
            id="G4",
            metric=f"{count} execs of /bin/true, {_AT_ONCE} outstanding, {_SANDBOXES} sandboxes",
            unit="execs/s",
            product=taken[PRODUCT],
            references=references,
            ratios=ratios,
            bounds=(at_least(RAW, 0.8), at_least(RUNC, 20)),
            missing=far.missing,
            load=load,
            note=f"{RUNC}: {count // _RUNC_SHARE} of them, as many outstanding, in one container; "
            "its ratio is of a pass of its own",
        )
    ]


def measure(plan: Plan) -> list[Result]:
    """One client, all execs at once; the reference has a loop on every core and no pipes."""
    with Load(_TRUE) as raw:
        return asyncio.run(_asynchronous(plan, raw))
