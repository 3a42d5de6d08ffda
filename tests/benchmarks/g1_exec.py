"""G1: a short command in a sandbox costs about what a local process costs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox, Sandbox
from tests.benchmarks.interleave import as_async, in_pairs, interleave, interleave_blocking
from tests.benchmarks.missing import Contestants
from tests.benchmarks.plan import load_average
from tests.benchmarks.product import PRODUCT, blocking_exec_call, exec_call
from tests.benchmarks.references import tools
from tests.benchmarks.references.oci import Runtime
from tests.benchmarks.references.probe import Probe
from tests.benchmarks.references.spawn import Spawn
from tests.benchmarks.report import Result, at_most, compare, compare_pairs, faster
from tests.benchmarks.stats import Summary, summarise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.benchmarks.plan import Plan

    Contestant = Callable[[], Awaitable[int]]

RAW = "C vfork+exec+wait"
PIPED = "C with two pipes read"
SUBPROCESS = "asyncio subprocess"

_TRUE = ["/bin/true"]
_ECHO = ["/bin/sh", "-c", "echo hi"]
# A vCPU halts and caches cool within a few milliseconds: what a rollout that thinks meets.
_GAP = (0.005, 0.020)


def _subprocess_call(argv: list[str], stdout: bytes = b"") -> Contestant:
    async def call() -> int:
        start = time.perf_counter_ns()
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        written, _ = await process.communicate()
        elapsed = time.perf_counter_ns() - start
        if process.returncode != 0 or written != stdout:
            raise RuntimeError(f"{argv} ended with {process.returncode} and wrote {written!r}")
        return elapsed

    return call


def _summaries(taken: Mapping[str, list[int]]) -> dict[str, Summary]:
    return {name: summarise(samples, per_unit=1e6) for name, samples in taken.items()}


async def _back_to_back(plan: Plan, sandbox: AsyncSandbox, spawn: Spawn) -> list[Result]:
    true: dict[str, Contestant] = {
        PRODUCT: exec_call(sandbox, _TRUE),
        RAW: as_async(lambda: spawn.plain(_TRUE)),
        PIPED: as_async(lambda: spawn.piped(_TRUE, output=0)),
        SUBPROCESS: _subprocess_call(_TRUE),
    }
    echo: dict[str, Contestant] = {
        PRODUCT: exec_call(sandbox, _ECHO, "hi\n"),
        PIPED: as_async(lambda: spawn.piped(_ECHO, output=3)),
        SUBPROCESS: _subprocess_call(_ECHO, b"hi\n"),
    }
    load = load_average()
    gated = _summaries(await interleave(true, plan.size(1000, 300)))
    shell = _summaries(await interleave(echo, plan.size(300, 100)))
    gaps = _summaries(await interleave(true, plan.size(300, 60), warm_up=5, gap=_GAP))

    references, ratios = compare(gated, PRODUCT)
    return [
        Result(
            id="G1",
            metric="exec /bin/true, async API",
            unit="ms",
            product=gated[PRODUCT],
            references=references,
            ratios=ratios,
            bounds=(at_most(RAW, 1.6), at_most(SUBPROCESS, 0.75)),
            load=load,
        ),
        _ungated("exec sh -c 'echo hi', async API", shell, load),
        _ungated("exec /bin/true after 5-20 ms of idleness", gaps, load),
    ]


def _ungated(metric: str, taken: dict[str, Summary], load: float) -> Result:
    references, ratios = compare(taken, PRODUCT)
    return Result(
        id="G1",
        metric=metric,
        unit="ms",
        product=taken[PRODUCT],
        references=references,
        ratios=ratios,
        load=load,
    )


async def _against_tools(plan: Plan, sandbox: AsyncSandbox, spawn: Spawn) -> Result:
    """Tools that take milliseconds: apart, so that they do not cool the caches of the others."""
    probe = plan.stack.enter_context(Probe(plan.work))
    box = probe.hold(1)

    def run(argv: list[str]) -> Contestant:
        return as_async(lambda: spawn.plain(argv))

    def container_exec(name: str, *, seccomp: bool = True) -> Contestant:
        runtime = Runtime(name, plan.work, plan.stack, seccomp=seccomp)
        return as_async(runtime.exec_call(_TRUE))

    calls: Contestants[Contestant] = Contestants()
    calls.invite("nsenter", lambda: run(tools.nsenter(box, _TRUE)))
    calls.invite("bwrap", lambda: run(tools.bwrap(_TRUE)))
    calls.invite("crun exec", lambda: container_exec("crun"))
    calls.invite("runc exec", lambda: container_exec("runc"))
    calls.invite("crun exec without seccomp", lambda: container_exec("crun", seccomp=False))
    calls.invite("runc exec without seccomp", lambda: container_exec("runc", seccomp=False))
    calls[PRODUCT] = exec_call(sandbox, _TRUE)
    load = load_average()
    passes = await in_pairs(PRODUCT, calls, plan.size(300, 60))
    product, references, ratios = compare_pairs(passes, PRODUCT, per_unit=1e6)
    return Result(
        id="G1",
        metric="exec /bin/true, async API, beside one tool at a time",
        unit="ms",
        product=product,
        references=references,
        ratios=ratios,
        bounds=(
            faster("nsenter", 3),
            faster("bwrap", 3),
            faster("crun exec", 15),
            faster("runc exec", 30),
        ),
        missing=calls.missing,
        load=load,
    )


async def _asynchronous(plan: Plan, spawn: Spawn) -> list[Result]:
    async with AsyncSandbox() as sandbox:
        return [
            *await _back_to_back(plan, sandbox, spawn),
            await _against_tools(plan, sandbox, spawn),
        ]


def _blocking(plan: Plan, spawn: Spawn) -> Result:
    load = load_average()
    with Sandbox() as sandbox:
        calls = {
            PRODUCT: blocking_exec_call(sandbox, _TRUE),
            RAW: lambda: spawn.plain(_TRUE),
        }
        taken = _summaries(interleave_blocking(calls, plan.size(1000, 300)))
    return _ungated("exec /bin/true, sync API", taken, load)


def measure(plan: Plan) -> list[Result]:
    """Back to back and gated; with idle gaps, a shell and the sync API beside it."""
    with Spawn() as spawn:
        results = asyncio.run(_asynchronous(plan, spawn))
        return [*results, _blocking(plan, spawn)]
