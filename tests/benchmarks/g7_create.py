"""G7: a sandbox made on demand answers its first command within about twice the kernel's time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.benchmarks.interleave import as_async, in_pairs, interleave
from tests.benchmarks.missing import Contestants
from tests.benchmarks.plan import load_average
from tests.benchmarks.product import PRODUCT, create_call
from tests.benchmarks.references import tools
from tests.benchmarks.references.docker import docker_run
from tests.benchmarks.references.oci import Runtime
from tests.benchmarks.references.probe import Probe
from tests.benchmarks.references.spawn import Spawn
from tests.benchmarks.report import Result, at_most, compare, compare_pairs, faster
from tests.benchmarks.stats import summarise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.benchmarks.plan import Plan
    from tests.benchmarks.stats import Summary

    Contestant = Callable[[], Awaitable[int]]

_TRUE = ["/bin/true"]
PROBE = "probe"
# The kernel takes namespaces apart after their last process is gone: without a pause, each
# contestant would pay for the end of the one before it.
_SETTLE = (0.010, 0.010)


async def _pass(
    contestants: Mapping[str, Contestant], rounds: int
) -> tuple[dict[str, Summary], dict[str, Summary], dict[str, float]]:
    taken = await interleave(contestants, rounds, warm_up=5, gap=_SETTLE)
    summaries = {name: summarise(samples, per_unit=1e6) for name, samples in taken.items()}
    return (summaries, *compare(summaries, PRODUCT))


async def _asynchronous(plan: Plan, spawn: Spawn) -> list[Result]:
    probe = plan.stack.enter_context(Probe(plan.work))
    near: dict[str, Contestant] = {PRODUCT: create_call, PROBE: as_async(probe.first)}
    far = _tools(plan, spawn)
    load = load_average()
    taken, references, ratios = await _pass(near, plan.size(500, 300))
    first = Result(
        id="G7",
        metric="create to first exec answered",
        unit="ms",
        product=taken[PRODUCT],
        references=references,
        ratios=ratios,
        bounds=(at_most(PROBE, 2),),
        load=load,
    )
    load = load_average()
    far[PRODUCT] = create_call
    passes = await in_pairs(PRODUCT, far, plan.size(300, 30), gap=_SETTLE)
    product, references, ratios = compare_pairs(passes, PRODUCT, per_unit=1e6)
    return [
        first,
        Result(
            id="G7",
            metric="create to first exec answered, beside one tool at a time",
            unit="ms",
            product=product,
            references=references,
            ratios=ratios,
            bounds=(
                faster("bwrap", 3),
                faster("crun run", 10),
                faster("runc run", 20),
                faster("docker run", 150),
            ),
            missing=far.missing,
            load=load,
        ),
    ]


def _tools(plan: Plan, spawn: Spawn) -> Contestants[Contestant]:
    """Whole commands: a container made, used once and removed, as a script would."""

    def bwrap() -> Contestant:
        argv = tools.bwrap(_TRUE)
        return as_async(lambda: spawn.plain(argv))

    def run(name: str) -> Contestant:
        return as_async(Runtime(name, plan.work, plan.stack).run_call(_TRUE))

    def docker() -> Contestant:
        argv = docker_run(plan.stack)
        return as_async(lambda: spawn.plain(argv))

    contestants: Contestants[Contestant] = Contestants()
    contestants.invite("bwrap", bwrap)
    contestants.invite("crun run", lambda: run("crun"))
    contestants.invite("runc run", lambda: run("runc"))
    contestants.invite("runsc run", lambda: run("runsc"))
    contestants.invite("docker run", docker)
    return contestants


def measure(plan: Plan) -> list[Result]:
    """Nothing is made ahead but what the launcher keeps by itself: there is no warm sandbox."""
    with Spawn() as spawn:
        return asyncio.run(_asynchronous(plan, spawn))
