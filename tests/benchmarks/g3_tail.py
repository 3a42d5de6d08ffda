"""G3: under load, the slowest commands are not much slower than without sandboxes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.benchmarks.holder import close_all, make_idle
from tests.benchmarks.interleave import interleave
from tests.benchmarks.outstanding import run_pass
from tests.benchmarks.plan import load_average
from tests.benchmarks.product import PRODUCT
from tests.benchmarks.references.load import Load, Pass
from tests.benchmarks.report import Result, at_most, compare
from tests.benchmarks.stats import Summary, summarise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from tests.benchmarks.plan import Plan

RAW = "C vfork+exec+wait with two pipes read"

# What a model asks for between two thoughts: mostly short, sometimes a pipeline or an interpreter.
# The output of each is the same in a sandbox and outside, and is compared.
_MIX = (
    ["/bin/true"],
    ["/bin/sh", "-c", "echo hi"],
    ["/bin/cat", "/usr/bin/env"],
    ["/bin/sh", "-c", "seq 2000 | sort -n | tail -n 1"],
    ["/bin/true"],
    ["/bin/ls", "-l", "-n", "/usr/bin"],
    ["/bin/sh", "-c", "for i in 1 2 3; do test -d /usr; done"],
    ["/usr/bin/env", "LC_ALL=C", "grep", "-c", "x", "/usr/bin/env"],
)
_AT_ONCE = 32


class _Passes:
    """A contestant that keeps what its passes took."""

    def __init__(self, run: Callable[[], Awaitable[Pass]]) -> None:
        self._run = run
        self.taken: list[Pass] = []

    async def __call__(self) -> int:
        self.taken.append(await self._run())
        return self.taken[-1].elapsed

    def tails(self) -> Summary:
        """Of each pass, the 99th percentile of its commands, in milliseconds."""
        return summarise(summarise(each.each, per_unit=1e6).p99 for each in self._counted())

    def commands(self) -> Summary:
        """All commands of all passes, in milliseconds."""
        return summarise((time for each in self._counted() for time in each.each), per_unit=1e6)

    def written(self) -> set[int]:
        return {each.written for each in self.taken}

    def _counted(self) -> Sequence[Pass]:
        # The first one warms up.
        return self.taken[1:]


async def _asynchronous(plan: Plan, raw: Load) -> list[Result]:
    count = plan.size(2048, 512)
    sandboxes = await make_idle(plan.size(256, 64))

    async def reference() -> Pass:
        return raw.piped(count, _AT_ONCE)

    contestants = {
        PRODUCT: _Passes(lambda: run_pass(sandboxes, _MIX, count, _AT_ONCE)),
        RAW: _Passes(reference),
    }
    load = load_average()
    await interleave(contestants, plan.size(9, 3), warm_up=1)
    await close_all(sandboxes)
    if len(contestants[PRODUCT].written() | contestants[RAW].written()) != 1:
        raise RuntimeError("the commands wrote something else in a sandbox than outside")

    tails = {name: passes.tails() for name, passes in contestants.items()}
    commands = {name: passes.commands() for name, passes in contestants.items()}
    what = f"{len(sandboxes)} sandboxes, {_AT_ONCE} mixed commands in flight"
    return [
        _result(f"{what}: p99 of a pass", tails, load, bounded=True),
        _result(f"{what}: each command", commands, load, bounded=False),
    ]


def _result(metric: str, taken: Mapping[str, Summary], load: float, *, bounded: bool) -> Result:
    references, ratios = compare(taken, PRODUCT)
    return Result(
        id="G3",
        metric=metric,
        unit="ms",
        product=taken[PRODUCT],
        references=references,
        ratios=ratios,
        bounds=(at_most(RAW, 1.5),) if bounded else (),
        load=load,
    )


def measure(plan: Plan) -> list[Result]:
    """The same commands in the same order, by as many C loops as the product has outstanding."""
    with Load(_MIX) as raw:
        return asyncio.run(_asynchronous(plan, raw))
