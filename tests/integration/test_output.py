"""Big output: bounded memory, an event loop that goes on, readers that do not wait for others."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import reference
from tests.support.agent_probe import AgentProbe, resources
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from sandboxd import AsyncSandbox

MB = 1_000_000


async def _consume(sandbox: AsyncSandbox, size: int) -> int:
    process = await sandbox.start(f"head -c {size} /dev/zero")
    total = 0
    async for chunk in process:
        total += len(chunk.data)
    assert (await process.wait()).exit_code == 0
    return total


async def test_o3_twice_the_output_takes_about_twice_the_time(sandbox: AsyncSandbox) -> None:
    """A buffer that is copied for every chunk would take four times as long."""
    await _consume(sandbox, 10 * MB)
    times: dict[int, float] = {}
    for size in (100 * MB, 200 * MB):
        started = time.monotonic()
        assert await _consume(sandbox, size) == size
        times[size] = time.monotonic() - started

    assert times[200 * MB] <= 2.5 * times[100 * MB] + 0.5


async def test_o3_the_event_loop_goes_on_while_output_streams(sandbox: AsyncSandbox) -> None:
    worst = 0.0
    done = False

    async def watch() -> None:
        nonlocal worst
        while not done:
            started = time.monotonic()
            await asyncio.sleep(0.005)
            worst = max(worst, time.monotonic() - started)

    watcher = asyncio.ensure_future(watch())
    await _consume(sandbox, 200 * MB)
    done = True
    await watcher

    # 50 ms on a machine of its own; this catches a loop that is blocked, not one that shares.
    assert worst < 0.25


async def test_o4_a_consumed_stream_leaves_the_callers_memory_flat(
    sandbox: AsyncSandbox, agent: AgentProbe
) -> None:
    await _consume(sandbox, 10 * MB)
    own, agents = resources(_own()), agent.resources()

    assert await _consume(sandbox, 300 * MB) == 300 * MB

    assert resources(_own()).is_flat_since(own)
    assert agent.resources().is_flat_since(agents)


async def test_o4_memory_of_a_run_is_bounded_by_its_cap(
    sandbox: AsyncSandbox, agent: AgentProbe
) -> None:
    own, agents = resources(_own()), agent.resources()

    result = await sandbox.run(f"head -c {300 * MB} /dev/zero", max_output_bytes=1 << 20)

    assert result.truncated
    assert result.stdout_total_bytes == 300 * MB
    assert len(result.stdout_bytes) <= 1 << 20
    assert resources(_own()).is_flat_since(own)
    assert agent.resources().is_flat_since(agents)


async def test_h3_a_reader_that_stalls_keeps_nobody_else_waiting(sandbox: AsyncSandbox) -> None:
    stalled = await sandbox.start("seq 1 1000000")
    reader = stalled.__aiter__()
    await reader.__anext__()

    process = await sandbox.start("seq 1 1000000")
    seen = hashlib.sha256()
    async for chunk in process:
        seen.update(chunk.data)
    assert seen.hexdigest() == reference.seq_hash(1, 1_000_000)
    assert (await sandbox.run("echo on")).stdout == "on\n"
    assert (await sandbox.info()).state == "ready"
    await stalled.kill()


async def test_h4_a_program_whose_output_nobody_reads_ends_by_itself(
    sandbox: AsyncSandbox, agent: AgentProbe
) -> None:
    before = agent.resources()

    process = await sandbox.start("head -c 200000000 /dev/zero")
    result = await process.wait()

    assert (result.exit_code, result.stdout_total_bytes) == (0, 200_000_000)
    await eventually(lambda: agent.resources().is_flat_since(before))


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_o4_a_gibibyte_is_streamed_and_run_with_flat_memory(
    sandbox: AsyncSandbox, agent: AgentProbe
) -> None:
    own, agents = resources(_own()), agent.resources()

    assert await _consume(sandbox, 1 << 30) == 1 << 30
    result = await sandbox.run(f"head -c {1 << 30} /dev/zero")

    assert (result.truncated, result.stdout_total_bytes) == (True, 1 << 30)
    assert resources(_own()).is_flat_since(own)
    assert agent.resources().is_flat_since(agents)


def _own() -> int:
    return os.getpid()
