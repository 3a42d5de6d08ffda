"""The control plane or its agent is killed; rollouts go on, and nothing is forgotten."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox, SandboxError
from sandboxd.backends.local import _peer
from sandboxd.client import _agent, _http
from tests.support.control import ControlPlane
from tests.support.processes import all_processes
from tests.support.waiting import eventually, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _nothing_of_the_sdk_is_left() -> Iterator[None]:
    """What the SDK keeps for as long as the process would look like a test's leftover."""
    yield
    _http.stop()
    _agent._externals.forget()


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    """A control plane with a pool of two."""
    with ControlPlane("host=2") as made:
        made.wait_for_pool(2)
        yield made


async def test_running_rollouts_do_not_notice_a_killed_control_plane(
    control: ControlPlane,
) -> None:
    sandboxes = [AsyncSandbox(url=control.url, labels={"run": "r1"}) for _ in range(5)]
    await asyncio.gather(*(each.ready() for each in sandboxes))
    running = [asyncio.ensure_future(each.run("sleep 2; echo done")) for each in sandboxes]
    processes = [await each.start("cat", stdin=True) for each in sandboxes]

    control.stop(signal.SIGKILL)

    for process in processes:
        await process.write_stdin(b"still")
        await process.close_stdin()
    assert [(await each.wait()).stdout for each in processes] == ["still"] * 5
    assert [(await each).stdout for each in running] == ["done\n"] * 5

    control.start()
    began = time.monotonic()
    assert sorted(control.ids()) == sorted(each.id for each in sandboxes)
    assert time.monotonic() - began < 2
    found = control.get(f"/v1/sandboxes/{sandboxes[0].id}")
    assert (found["labels"], found["state"]) == ({"run": "r1"}, "ready")
    with control.client() as client:
        assert client.delete(f"/v1/sandboxes/{sandboxes[0].id}").json()["released"]
    for each in sandboxes:
        await each.close()
    assert control.ids() == []


async def test_a_restart_keeps_the_warm_ones_and_makes_no_more(control: ControlPlane) -> None:
    async with AsyncSandbox(url=control.url) as sandbox:
        await sandbox.ready()
        control.wait_for_pool(2)
        control.stop(signal.SIGKILL)
        control.start()
        control.wait_for_pool(2)
        async with AsyncSandbox(url=control.url) as other:
            await other.ready()
            assert (await other.info()).launch == "warm"
    assert "cannot be made" not in control.log()


async def test_p6_warm_ones_that_were_killed_are_not_handed_out(control: ControlPlane) -> None:
    agent = _peer(str(control.state / "sockets" / "serve.sock"))
    assert agent is not None
    for _ in range(3):
        control.wait_for_pool(2)
        for pid in _inits(agent):
            os.kill(pid, signal.SIGKILL)
        async with AsyncSandbox(url=control.url) as sandbox:
            assert (await sandbox.run("echo lives")).stdout == "lives\n"


async def test_a_killed_agent_is_an_error_for_its_sandboxes_and_is_replaced(
    control: ControlPlane,
) -> None:
    lost = AsyncSandbox(url=control.url)
    await lost.ready()
    running = asyncio.ensure_future(lost.run("sleep 60"))
    agent = _peer(str(control.state / "sockets" / "serve.sock"))
    assert agent is not None

    os.kill(agent, signal.SIGKILL)

    with pytest.raises(SandboxError):
        await running
    await eventually(
        lambda: _peer(str(control.state / "sockets" / "serve.sock")) not in (None, agent),
        within=20,
    )
    async with AsyncSandbox(url=control.url) as sandbox:
        assert (await sandbox.run("echo again")).stdout == "again\n"
    control.wait_for_pool(2)
    await lost.close()


async def test_l2_a_caller_that_is_cancelled_and_closes_leaves_nothing(
    control: ControlPlane,
) -> None:
    for number in range(30):
        async with AsyncSandbox(url=control.url) as sandbox:
            task = asyncio.ensure_future(sandbox.run("true"))
            await asyncio.sleep(0.002 * (number % 10))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    wait_until(lambda: not control.ids())


def test_a_graceful_stop_ends_an_agent_that_nobody_needs() -> None:
    with ControlPlane("host=1") as control:
        control.wait_for_pool(1)
        assert control.stop() == 0
        assert _peer(str(control.state / "sockets" / "serve.sock")) is None


def _inits(agent: int) -> list[int]:
    """The inits of an agent's sandboxes: children of its launcher."""
    processes = all_processes()
    launchers = {each.pid for each in processes.values() if each.parent == agent}
    return [each.pid for each in processes.values() if each.parent in launchers]
