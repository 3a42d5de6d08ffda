"""G14, the half about streams: output comes fast and soon, and holds nobody up.

Both sides run the same C program, which does nothing but write. The reference moves its output
from the pipe to /dev/null and copies nothing; the product's goes through the agent, which keeps it
for other readers, and a socket, and becomes objects of Python.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox, Limits
from tests.benchmarks.interleave import as_async, interleave
from tests.benchmarks.plan import load_average
from tests.benchmarks.processes import agent_below, proportional_kb
from tests.benchmarks.product import PRODUCT, info_call
from tests.benchmarks.references.stream import SOURCE, Stream
from tests.benchmarks.report import TIMES, Bound, Result, at_most, compare, within
from tests.benchmarks.stats import Summary, summarise

if TYPE_CHECKING:
    from sandboxd import OutputPolicy
    from tests.benchmarks.plan import Plan

SPLICE = "splice to /dev/null"
RAW_FIRST = "raw spawn to its first byte"
NO_OP = "no-op call"
NO_OP_AND_RAW = "no-op call and raw spawn to its first byte"

_LEAST_RATE = 0.3
_MOST_NO_OPS = 2
_WORST_LAG_MS = 50
# The window of a process (1 MiB, and half as much behind its reader), what waits for the socket
# (1 MiB), what is on its way to disk, and the allocator's share of it, twice.
_MOST_GROWTH_KIB = 8 << 10

_MIB = 1 << 20
_PROGRAM = "/tmp/source"
_STAMP = (_PROGRAM, "stamp")

_TICK = 0.001
_LAG_BYTES = 200 * 1000 * 1000

_SLOW_PAUSE = 0.01
# More than is ever kept of it: the program is held up by its reader.
_SLOW_BYTES = 4096 * _MIB


def _fill(size: int) -> tuple[str, ...]:
    return _PROGRAM, "fill", str(size)


async def _read_all(sandbox: AsyncSandbox, size: int) -> int:
    """Nanoseconds from the start of the program to the end of its output."""
    start, read = time.perf_counter_ns(), 0
    process = await sandbox.start(_fill(size))
    async for output in process:
        read += len(output.data)
    elapsed = time.perf_counter_ns() - start
    result = await process.wait()
    if not result.ok or read != size:
        raise RuntimeError(f"{read} of {size} bytes arrived: {result!r}")
    return elapsed


async def _throughput(plan: Plan, sandbox: AsyncSandbox, raw: Stream) -> Result:
    size = plan.size(1024, 256) * _MIB
    load = load_average()

    async def product() -> int:
        return await _read_all(sandbox, size)

    def spliced() -> int:
        return raw.splice((str(SOURCE), "fill", str(size)), output=size)

    taken = await interleave(
        {PRODUCT: product, SPLICE: as_async(spliced)}, plan.size(15, 7), warm_up=1
    )
    summaries = {name: summarise(samples, per_unit=1e6) for name, samples in taken.items()}
    references, ratios = compare(summaries, PRODUCT)
    return Result(
        id="G14",
        metric=f"{size // _MIB} MiB of stdout, async API",
        unit="ms",
        product=summaries[PRODUCT],
        references=references,
        ratios=ratios,
        bounds=(Bound(SPLICE, 1 / _LEAST_RATE, f"≥ {_LEAST_RATE:g}{TIMES} the rate of {SPLICE}"),),
        load=load,
    )


async def _first_byte(plan: Plan, sandbox: AsyncSandbox, raw: Stream) -> list[Result]:
    """Of a command that is started, and of a write of a program that runs."""
    load = load_average()
    written_at: list[int] = []
    arrived_at: list[int] = []

    async def product() -> int:
        start = time.perf_counter_ns()
        process = await sandbox.start(_STAMP)
        output = await anext(process)
        arrived = time.perf_counter_ns()
        # Its clock is the same one: sandboxes have no time of their own.
        written_at.append(int(output.data))
        arrived_at.append(arrived)
        result = await process.wait()
        if not result.ok:
            raise RuntimeError(f"a program ended with {result!r}")
        return arrived - start

    rounds = plan.size(1000, 300)
    taken = await interleave(
        {
            PRODUCT: product,
            RAW_FIRST: as_async(lambda: raw.first((str(SOURCE), "stamp"))),
            NO_OP: info_call(),
        },
        rounds,
    )
    delivered = [
        arrived - written
        for written, arrived in zip(written_at[-rounds:], arrived_at[-rounds:], strict=True)
    ]
    product_, raw_, no_op = (
        summarise(taken[name], per_unit=1e3) for name in (PRODUCT, RAW_FIRST, NO_OP)
    )
    # Each no-op with the raw spawn of the same round.
    pairs = zip(taken[RAW_FIRST], taken[NO_OP], strict=True)
    both = summarise((spawn + call for spawn, call in pairs), per_unit=1e3)
    own = summarise(delivered, per_unit=1e3)
    return [
        Result(
            id="G14",
            metric="first byte of a command, from start()",
            unit="µs",
            product=product_,
            references={NO_OP_AND_RAW: both, RAW_FIRST: raw_},
            ratios={NO_OP_AND_RAW: product_.p50 / both.p50, RAW_FIRST: product_.p50 / raw_.p50},
            bounds=(at_most(NO_OP_AND_RAW, _MOST_NO_OPS),),
            load=load,
            note="start and output are two calls; the program's own start is in both sides",
        ),
        Result(
            id="G14",
            metric="first byte of a command, from the program's write",
            unit="µs",
            product=own,
            references={NO_OP: no_op},
            ratios={NO_OP: own.p50 / no_op.p50},
            load=load,
            note=(
                "the program writes the time of its write; the answer of start() and the call for "
                "output lie behind it. Not gated: it is two calls"
            ),
        ),
    ]


async def _worst_lag(until: asyncio.Event) -> int:
    """How many nanoseconds too late a timer of the loop was at worst."""
    worst = 0
    while not until.is_set():
        due = time.perf_counter_ns() + int(_TICK * 1e9)
        await asyncio.sleep(_TICK)
        worst = max(worst, time.perf_counter_ns() - due)
    return worst


async def _lag(plan: Plan, sandbox: AsyncSandbox) -> Result:
    """Of the program that reads, while the output arrives; idle for comparison."""
    load = load_average()

    async def reading() -> int:
        done = asyncio.Event()
        lag = asyncio.create_task(_worst_lag(done))
        await _read_all(sandbox, _LAG_BYTES)
        done.set()
        return await lag

    async def idle() -> int:
        done = asyncio.Event()
        asyncio.get_running_loop().call_later(0.2, done.set)
        return await _worst_lag(done)

    name = "the same loop, idle"
    taken = await interleave({PRODUCT: reading, name: idle}, plan.size(15, 7), warm_up=1)
    worst = {key: summarise(samples, per_unit=1e6) for key, samples in taken.items()}
    # The worst of all is what is promised, not the median of the worst.
    product = Summary(worst[PRODUCT].min, max(taken[PRODUCT]) / 1e6, worst[PRODUCT].p99, 1)
    return Result(
        id="G14",
        metric="worst lag of the loop while 200 MB arrive",
        unit="ms",
        product=product,
        references={name: worst[name]},
        bounds=(within(_WORST_LAG_MS, "ms"),),
        load=load,
        note=(
            f"p50 is the worst of {len(taken[PRODUCT])} passes; "
            f"their median is {worst[PRODUCT].p50:.1f} ms"
        ),
    )


async def _grown(sandbox: AsyncSandbox, policy: OutputPolicy, seconds: float) -> tuple[int, ...]:
    """KiB by which this process and the agent grew at most, while a slow reader read."""
    pids = (os.getpid(), agent_below(os.getpid()))
    before = [proportional_kb(pid, "Pss_Anon") for pid in pids]
    most = [0] * len(pids)
    until = time.monotonic() + seconds
    process = await sandbox.start(_fill(_SLOW_BYTES), output=policy)
    async for _ in process:
        await asyncio.sleep(_SLOW_PAUSE)
        grown = [proportional_kb(pid, "Pss_Anon") for pid in pids]
        most = [max(old, new - base) for old, new, base in zip(most, grown, before, strict=True)]
        if time.monotonic() > until:
            break
    if not await process.kill():
        raise RuntimeError("a slow reader read everything: the program was to be held up")
    return tuple(most)


async def _memory(plan: Plan, sandbox: AsyncSandbox, policy: OutputPolicy) -> list[Result]:
    load = load_average()
    seconds = plan.size(3, 1)
    passes = [await _grown(sandbox, policy, seconds) for _ in range(plan.size(5, 2))]
    clients, agents = zip(*passes, strict=True)
    return [
        Result(
            id="G14",
            metric=f"growth of the {whose} while a slow reader reads, {policy}",
            unit="KiB",
            product=summarise(grown),
            bounds=(within(_MOST_GROWTH_KIB, "KiB"),),
            load=load,
        )
        for whose, grown in (("client", clients), ("agent", agents))
    ]


async def _measure(plan: Plan, raw: Stream) -> list[Result]:
    async with AsyncSandbox(limits=Limits(disk=64 * _MIB)) as sandbox:
        await sandbox.files.write(_PROGRAM, SOURCE.read_bytes(), mode=0o755)
        # First: an allocator that had more to do has more to reuse, and would not seem to grow.
        memory = [await _memory(plan, sandbox, policy) for policy in ("block", "spill")]
        return [
            await _throughput(plan, sandbox, raw),
            *await _first_byte(plan, sandbox, raw),
            await _lag(plan, sandbox),
            *(result for results in memory for result in results),
        ]


def measure(plan: Plan) -> list[Result]:
    """Everything in one sandbox, one after the other."""
    with Stream() as raw:
        return asyncio.run(_measure(plan, raw))
