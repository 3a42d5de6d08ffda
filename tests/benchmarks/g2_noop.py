"""G2: a call that does nothing costs less than a message over asyncio streams."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.benchmarks.interleave import interleave, interleave_blocking
from tests.benchmarks.missing import Contestants
from tests.benchmarks.plan import load_average
from tests.benchmarks.product import PRODUCT, agent_socket, blocking_info_call, info_call
from tests.benchmarks.references.echo import blocking_call, start_echo, streams_call
from tests.benchmarks.references.grpc_info import grpc_call
from tests.benchmarks.report import Result, at_most, compare, within
from tests.benchmarks.stats import Summary, summarise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from tests.benchmarks.plan import Plan

    Contestant = Callable[[], Awaitable[int]]

STREAMS = "asyncio streams echo"
GRPC = "grpc.aio"
BLOCKING = "blocking socket echo"

_IN_FLIGHT = 64
_CALLS_EACH = 40


def _summaries(taken: Mapping[str, list[int]]) -> dict[str, Summary]:
    return {name: summarise(samples, per_unit=1e3) for name, samples in taken.items()}


async def _in_flight(runs: int) -> Summary:
    """Microseconds per call while 64 tasks call without a pause."""
    call = info_call()

    async def caller() -> None:
        for _ in range(_CALLS_EACH):
            await call()

    samples = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        await asyncio.gather(*(caller() for _ in range(_IN_FLIGHT)))
        samples.append((time.perf_counter_ns() - start) / (_IN_FLIGHT * _CALLS_EACH))
    # The first run warms up.
    return summarise(samples[1:], per_unit=1e3)


async def _asynchronous(plan: Plan, echo: Path) -> list[Result]:
    rounds = plan.size(2000, 500)
    load = load_average()
    alone: dict[str, Contestant] = {
        PRODUCT: info_call(),
        STREAMS: await streams_call(echo),
    }
    streams = _summaries(await interleave(alone, rounds))
    in_flight = await _in_flight(plan.size(20, 8))
    # Last: from here on the threads of grpcio share the process.
    contestants: Contestants[Contestant] = Contestants()
    contestants.invite(GRPC, lambda: grpc_call(agent_socket()))
    grpc = _summaries(await interleave({PRODUCT: info_call(), **contestants}, rounds))
    references, ratios = compare(streams, PRODUCT)
    grpc_references, grpc_ratios = compare(grpc, PRODUCT)
    return [
        Result(
            id="G2",
            metric="no-op call, async API",
            unit="µs",
            product=streams[PRODUCT],
            references=references | grpc_references,
            ratios=ratios | grpc_ratios,
            bounds=(at_most(STREAMS, 1.5), at_most(GRPC, 0.5)),
            missing=contestants.missing,
            load=load,
            note=f"the ratio to {GRPC} is of an interleaved pass of its own",
        ),
        Result(
            id="G2",
            metric=f"no-op call, {_IN_FLIGHT} in flight, per call",
            unit="µs",
            product=in_flight,
            bounds=(within(15, "µs"),),
            load=load,
        ),
    ]


def _blocking(plan: Plan, echo: Path) -> Result:
    load = load_average()
    calls = {
        PRODUCT: blocking_info_call(),
        BLOCKING: blocking_call(echo, plan.stack),
    }
    taken = _summaries(interleave_blocking(calls, plan.size(2000, 500)))
    references, ratios = compare(taken, PRODUCT)
    return Result(
        id="G2",
        metric="no-op call, sync API",
        unit="µs",
        product=taken[PRODUCT],
        references=references,
        ratios=ratios,
        load=load,
    )


def measure(plan: Plan) -> list[Result]:
    """One at a time, 64 at once, and blocking. The sync pass comes first: it has no threads."""
    echo = start_echo(plan.work, plan.stack)
    blocking = _blocking(plan, echo)
    return [*asyncio.run(_asynchronous(plan, echo)), blocking]
