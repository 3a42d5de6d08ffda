"""Big output: bounded memory, an event loop that goes on, readers that do not wait for others."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandboxd import AsyncSandbox, ExecExpiredError, ExecNotFoundError
from tests.support import reference
from tests.support.agent_probe import MIB, AgentProbe, resources
from tests.support.waiting import eventually

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


async def test_h3_two_attach_to_one_exec_and_one_of_them_never_reads(
    sandbox: AsyncSandbox,
) -> None:
    stalled = await sandbox.start("seq 1 1000000; exit 3", exec_id="shared")
    await stalled.__anext__()
    # Another handle, as another process would have it.
    async with AsyncSandbox(sandbox_id="other") as other:
        reader = await sandbox.attach("shared")
        seen = hashlib.sha256()
        total = 0
        async for chunk in reader:
            seen.update(chunk.data)
            total += len(chunk.data)
            if total % 50 == 0:
                await other.run("true")

        assert total == 6_888_896
        assert seen.hexdigest() == reference.seq_hash(1, 1_000_000)
        assert (await reader.wait()).exit_code == 3
        assert (await other.run("echo on")).stdout == "on\n"


async def test_memory_is_bounded_over_all_execs_whose_output_nobody_reads(
    sandbox: AsyncSandbox, agent: AgentProbe
) -> None:
    """20 windows of a MiB and some, not 20 times 20 MB."""
    before = agent.resources()

    processes = [await sandbox.start(f"head -c {20 * MB} /dev/zero") for _ in range(20)]

    async def ended() -> bool:
        return (await sandbox.info()).running_execs == 0

    for _ in range(1000):
        if await ended():
            break
        await asyncio.sleep(0.02)
    assert agent.resources().resident <= before.resident + 48 * MIB
    for process in processes:
        assert await process.read("stdout", 20 * MB - 5, 100) == bytes(5)


async def test_z10_another_process_reads_what_one_has_left(sandbox: AsyncSandbox) -> None:
    """An exec belongs to its sandbox, not to who started it."""
    process = await sandbox.start("seq 1 100000; echo done >&2")
    first = await process.__anext__()
    begun = len(first.data)
    code = (
        "import sys\n"
        "from sandboxd import Sandbox\n"
        "sandbox = Sandbox(sandbox_id=sys.argv[1])\n"
        "process = sandbox.attach(sys.argv[2], stdout_offset=int(sys.argv[3]))\n"
        "for output in process:\n"
        "    if output.stream == 'stdout':\n"
        "        sys.stdout.buffer.write(output.data)\n"
        "sys.stdout.flush()\n"
        "assert process.wait().exit_code == 0\n"
        "import os; os._exit(0)\n"
    )
    (socket,) = Path(os.environ["SANDBOXD_STATE"], "sockets").glob("*.sock")
    other = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", code, sandbox.id, process.exec_id, str(begun)),
        env={**os.environ, "SANDBOXD_SOCKET": str(socket)},
        stdout=subprocess.PIPE,
    )
    rest, _ = await other.communicate()

    assert other.returncode == 0
    digest = hashlib.sha256(first.data + rest).hexdigest()
    assert digest == reference.seq_hash(1, 100_000)


@pytest.mark.soak
@pytest.mark.timeout(120)
async def test_z10_what_ended_can_be_read_for_a_minute_and_then_it_is_called_expired(
    sandbox: AsyncSandbox,
) -> None:
    process = await sandbox.start("seq 1 1000000")
    await process.wait()
    await asyncio.sleep(50)
    assert await process.read("stdout", 0, 4) == b"1\n2\n"
    assert (await (await sandbox.attach(process.exec_id)).wait()).stdout_total_bytes == 6_888_896
    await asyncio.sleep(12)

    with pytest.raises(ExecExpiredError, match="60 seconds"):
        await sandbox.attach(process.exec_id)
    with pytest.raises(ExecExpiredError):
        await process.read("stdout")
    with pytest.raises(ExecNotFoundError) as unknown:
        await sandbox.attach("never")
    assert not isinstance(unknown.value, ExecExpiredError)


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
