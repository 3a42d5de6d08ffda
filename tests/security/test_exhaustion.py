"""Attacks on shares: what is inside uses up its own and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest

import sandboxd
from sandboxd import AsyncSandbox, Limits, SandboxLostError
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from sandboxd.testing import LocalSetup
    from tests.support.agent_probe import AgentProbe

ANSWER = 1.0
"""Seconds within which the agent tells about itself, whatever happens inside."""

STORMS = {
    "a fork bomb": ":(){ :|:& };: ; sleep 3",
    "a kill of everything": "kill -9 -1; sleep 1",
    "an allocation storm": (
        "for i in 1 2 3 4; do python3 -c 'x=[bytearray(1<<24) for _ in range(1000)]' & done; wait"
    ),
    "a storm of threads": (
        "python3 -c 'import threading,time\n"
        "while True: threading.Thread(target=time.sleep, args=(3,)).start()'"
    ),
    "a storm of open files": (
        "for i in $(seq 20); do python3 -c 'import os\nwhile True: os.open(\"/\", 0)' & done; wait"
    ),
    "a storm of signals to init": "while :; do kill -CHLD 1; kill -USR1 1; done",
    "a storm of orphans": "while :; do (sleep 0.01 & sleep 0.01 &); done",
    "a storm of output": "yes & yes >&2 & wait",
}


@pytest.mark.needs("limit.memory", "limit.pids")
@pytest.mark.parametrize("what", STORMS)
async def test_m4_a_storm_inside_stops_neither_the_agent_nor_a_neighbour(what: str) -> None:
    limits = Limits(memory=256 << 20, pids=128)
    async with AsyncSandbox(limits=limits) as attacker, AsyncSandbox() as neighbour:
        await asyncio.gather(attacker.ready(), neighbour.ready())
        storm = asyncio.ensure_future(attacker.run(STORMS[what], timeout=4))
        until = time.monotonic() + 3
        while time.monotonic() < until:
            await asyncio.wait_for(asyncio.to_thread(sandboxd.agent_info), ANSWER)
            assert (await asyncio.wait_for(neighbour.run("true"), 3)).ok
            await asyncio.sleep(0.05)
        with contextlib.suppress(SandboxLostError):
            await storm
            again = await asyncio.wait_for(attacker.run("echo on"), 5)
            assert again.stdout == "on\n"


async def test_nobody_inside_gets_more_than_a_thousand_processes_whatever_counts_them() -> None:
    """By the cgroup's limit, or by a resource limit where no cgroup can be written."""
    program = (
        "import os, signal\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "made = 0\n"
        "try:\n"
        "    for made in range(1500):\n"
        "        if os.fork() == 0:\n"
        "            signal.pause()\n"
        "except BlockingIOError:\n"
        "    pass\n"
        "print(made, flush=True)\n"
        "os.killpg(0, signal.SIGKILL)\n"
    )
    async with AsyncSandbox() as sandbox:
        result = await sandbox.run(["python3", "-c", program], timeout=30)
    assert 900 < int(result.stdout) < 1_100


async def test_killing_everything_inside_ends_no_sandbox_and_hides_no_process(
    setup: LocalSetup,
) -> None:
    """Not even where an exec is watched by a process that its programs can kill."""
    async with AsyncSandbox() as sandbox:
        outside = await setup.outside(sandbox)
        for attack in ("kill -9 -1; sleep 1", "kill -9 $PPID; sleep 1", "kill -STOP -1; sleep 1"):
            await sandbox.run(attack, timeout=3)
            again = await asyncio.wait_for(sandbox.run("echo on"), 5)
            assert again.stdout == "on\n"
        hide = "kill -9 $PPID; (setsid sleep 66 &); setsid sleep 66 & sleep 66"
        result = await asyncio.wait_for(sandbox.run(hide, timeout=1), 5)
        assert result.cause in {"timeout", "signaled"}
        assert outside.left() == []


@pytest.mark.needs("limit.cpu")
async def test_a_busy_sandbox_gets_its_share_of_the_processors_and_no_more() -> None:
    burn = (
        "import multiprocessing, time\n"
        "def burn():\n"
        "    end = time.monotonic() + 2\n"
        "    while time.monotonic() < end: pass\n"
        "each = [multiprocessing.Process(target=burn) for _ in range(4)]\n"
        "[p.start() for p in each]; [p.join() for p in each]\n"
    )
    async with AsyncSandbox(limits=Limits(cpus=0.5)) as sandbox:
        result = await sandbox.run(["python3", "-c", burn])

    assert result.cpu_time < 0.75 * result.duration


async def test_a_flood_of_execs_is_answered_or_refused_and_forgotten(agent: AgentProbe) -> None:
    """The agent's tables are bounded: what does not fit is a named error."""
    async with AsyncSandbox() as sandbox:
        await sandbox.ready()
        before = agent.resources()
        calls = [asyncio.ensure_future(sandbox.run(["true"])) for _ in range(3000)]
        results = await asyncio.gather(*calls, return_exceptions=True)

        refused = [each for each in results if isinstance(each, BaseException)]
        assert all(isinstance(each, sandboxd.ResourceExhaustedError) for each in refused), refused
        assert (await sandbox.run("echo on")).stdout == "on\n"
    await eventually(lambda: agent.resources().is_flat_since(before), within=10)


async def test_output_that_nobody_reads_stays_out_of_the_agents_memory(agent: AgentProbe) -> None:
    async with AsyncSandbox() as sandbox:
        await sandbox.ready()
        before = agent.resources()
        talkers = [await sandbox.start("yes") for _ in range(8)]
        await asyncio.sleep(2)
        after = agent.resources()
        for each in talkers:
            await each.kill()

    # Kept output is bounded per sandbox: 64 MiB, and what is on its way.
    assert after.resident <= before.resident + (192 << 20)


async def test_environment_and_arguments_of_one_exec_do_not_stay_in_the_agent(
    agent: AgentProbe,
) -> None:
    async with AsyncSandbox() as sandbox:
        await sandbox.run("true")
        before = agent.resources()
        for _ in range(200):
            await sandbox.run(["true", *["x" * 100_000] * 10])

    await eventually(lambda: agent.resources().is_flat_since(before))
