"""Every call ends, and a sandbox that nobody learned of is gone."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox, Limits, SandboxError, SandboxFileNotFoundError, SandboxLostError
from sandboxd.testing.setup import PidNamespace
from tests.support.seeds import seeded
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from sandboxd.testing import LocalSetup
    from tests.support.agent_probe import AgentProbe


async def _kill_init(setup: LocalSetup, sandbox: AsyncSandbox) -> None:
    outside = await setup.outside(sandbox)
    assert isinstance(outside, PidNamespace)
    init = outside.init()
    assert init is not None
    os.kill(init, signal.SIGKILL)


async def test_h2_a_killed_sandbox_is_lost_with_a_reason_for_every_kind_of_call(
    setup: LocalSetup,
) -> None:
    async with AsyncSandbox() as sandbox:
        process = await sandbox.start("cat", stdin=True)
        waiting = [
            asyncio.ensure_future(sandbox.run("sleep 300")),
            asyncio.ensure_future(process.wait()),
        ]
        await asyncio.sleep(0.2)
        await _kill_init(setup, sandbox)

        for each in waiting:
            with pytest.raises(SandboxLostError) as raised:
                await asyncio.wait_for(each, 5)
            assert raised.value.reason
            assert raised.value.may_have_run
        with pytest.raises(SandboxLostError) as raised:
            await sandbox.run("true")
        assert not raised.value.may_have_run
        with pytest.raises(SandboxLostError):
            await sandbox.files.read("/etc/passwd")


async def test_a_lost_sandbox_takes_no_other_one_with_it(setup: LocalSetup) -> None:
    async with AsyncSandbox() as lost, AsyncSandbox() as neighbour:
        waiting = asyncio.ensure_future(neighbour.run("sleep 1; echo on"))
        await _kill_init(setup, lost)

        assert (await waiting).stdout == "on\n"


async def test_h1_a_silent_command_on_a_healthy_connection_is_waited_for(
    sandbox: AsyncSandbox,
) -> None:
    """Silence is not death."""
    result = await sandbox.run("sleep 10; exit 4")

    assert (result.exit_code, result.cause) == (4, "exited")


async def test_l2_a_claim_that_is_canceled_at_any_moment_leaves_no_sandbox(
    agent: AgentProbe,
) -> None:
    chance = seeded("200 canceled claims")
    before = len(agent.inits())

    async def claim() -> None:
        async with AsyncSandbox() as sandbox:
            await sandbox.run("true")

    for _ in range(200):
        task = asyncio.ensure_future(claim())
        await asyncio.sleep(chance.uniform(0, 0.02))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    await eventually(lambda: len(agent.inits()) == before)


@pytest.mark.needs("limit.disk")
async def test_f2_a_write_to_a_full_disk_is_an_error_and_the_old_file_stays_whole() -> None:
    async with AsyncSandbox(limits=Limits(disk=16 << 20)) as sandbox:
        await sandbox.files.write("/tmp/f", b"old")
        for path in ("/tmp/f", "/tmp/new"):
            with pytest.raises(SandboxError, match=r"space|full|disk"):
                await sandbox.files.write(path, bytes(64 << 20))

        assert await sandbox.files.read("/tmp/f") == b"old"
        with pytest.raises(SandboxFileNotFoundError):
            await sandbox.files.read("/tmp/new")
        # No temporary file holds the room of the failed writes.
        await sandbox.files.write("/tmp/g", bytes(8 << 20))
        assert [each.name for each in await sandbox.files.list("/tmp")] == ["f", "g"]


async def test_f2_a_write_whose_caller_gives_up_leaves_no_half_file(sandbox: AsyncSandbox) -> None:
    chance = seeded("20 writes given up")
    await sandbox.files.write("/tmp/f", b"old")
    for _ in range(20):
        task = asyncio.ensure_future(sandbox.files.write("/tmp/f", bytes(32 << 20)))
        await asyncio.sleep(chance.uniform(0, 0.05))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        size = (await sandbox.files.stat("/tmp/f")).size
        assert size in {3, 32 << 20}

    async def only_the_file() -> bool:
        return [each.name for each in await sandbox.files.list("/tmp")] == ["f"]

    for _ in range(100):
        if await only_the_file():
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"left: {await sandbox.files.list('/tmp')}")


async def test_h12_the_agent_answers_while_hundreds_of_commands_run(sandbox: AsyncSandbox) -> None:
    noise = [asyncio.ensure_future(sandbox.run("sleep 2")) for _ in range(200)]
    claims = [asyncio.ensure_future(_once()) for _ in range(20)]
    for _ in range(20):
        await asyncio.wait_for(sandbox.info(), 1)
        await asyncio.sleep(0.05)
    results = await asyncio.gather(*noise)
    await asyncio.gather(*claims)

    assert all(each.ok for each in results)


async def _once() -> None:
    async with AsyncSandbox() as sandbox:
        assert (await sandbox.run("true")).ok
