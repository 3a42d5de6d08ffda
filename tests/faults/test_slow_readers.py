"""Readers that are slow, stalled or gone: they hold up nobody, and nothing grows for them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.agent_probe import MIB, resources
from tests.support.ordinary import ROOT, environment
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sandboxd import AsyncSandbox
    from sandboxd.testing import LocalSetup

AGENT = os.environ.get("SANDBOXD_AGENT_BINARY", ROOT / "sandboxd" / "_bin" / "sandboxd-agent")

CLIENT = """
import asyncio, json, sys
import sandboxd
from sandboxd import AsyncSandbox

async def main():
    sandbox = AsyncSandbox(sandbox_id="of-a-client", ttl=600)
    policies = ("spill", "block", "drop_oldest")
    processes = [await sandbox.start("yes", output=policy) for policy in policies]
    for process in processes:
        await process.__anext__()
    print(json.dumps([process.exec_id for process in processes]), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""

FINISH = """
import json, sys
from sandboxd import Sandbox

with Sandbox(sandbox_id="of-a-client", ttl=600) as sandbox:
    print(json.dumps({each.exec_id: each.running for each in sandbox.execs()}), flush=True)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, for sockets."""
    made = Path(tempfile.mkdtemp(prefix="sandboxd-f"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def alone(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An agent that belongs to no client; it listens at `agent.sock` in the folder."""
    path = folder / "agent.sock"
    agent = subprocess.Popen(
        [AGENT, "serve", "--listen", path, "--state", folder / "state"],
        stdin=subprocess.DEVNULL,
        env=environment(folder),
    )
    try:
        wait_until(path.is_socket)
        yield agent
    finally:
        agent.terminate()
        assert agent.wait(10) == 0


def _python(folder: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(folder / "client", SANDBOXD_SOCKET=str(folder / "agent.sock")),
        stdout=subprocess.PIPE,
        text=True,
    )


def _memory_stays_flat(folder: Path, agent: int, seconds: float) -> None:
    with _python(folder, CLIENT) as client:
        assert client.stdout is not None
        started = json.loads(client.stdout.readline())
        before = resources(agent)
        client.send_signal(signal.SIGKILL)
        client.wait()
    deadline = time.monotonic() + seconds
    most = 0
    while time.monotonic() < deadline:
        most = max(most, resources(agent).resident)
        time.sleep(0.1)
    assert most <= before.resident + 16 * MIB
    with _python(folder, FINISH) as after:
        assert after.stdout is not None
        running = json.loads(after.stdout.readline())
    assert running == dict.fromkeys(started, True)


def test_h4_memory_stays_flat_when_the_client_of_endless_output_is_killed(
    folder: Path, alone: subprocess.Popen[bytes]
) -> None:
    """Whatever the policy; the programs live on until their sandbox ends."""
    _memory_stays_flat(folder, alone.pid, 5)


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_h4_memory_stays_flat_for_a_minute(folder: Path, alone: subprocess.Popen[bytes]) -> None:
    _memory_stays_flat(folder, alone.pid, 60)


@pytest.mark.timeout(240)
async def test_h13_a_slow_reader_of_a_gibibyte_delays_no_other_call_of_its_connection(
    sandbox: AsyncSandbox, setup: LocalSetup
) -> None:
    """Control frames go ahead of bulk data, and the connection lives."""
    size = 1 << 30
    process = await sandbox.start(f"head -c {size} /dev/zero")
    other = await sandbox.start("trap 'echo got' USR1; while :; do sleep 0.01; done")
    slow = True
    total = 0

    async def read() -> None:
        nonlocal total
        async for chunk in process:
            total += len(chunk.data)
            if slow:
                await asyncio.sleep(0.05)

    async def took(call: Callable[[], Awaitable[object]]) -> float:
        started = time.monotonic()
        await call()
        return time.monotonic() - started

    reader = asyncio.ensure_future(read())
    worst = 0.0
    for _ in range(40):
        worst = max(worst, await took(sandbox.info))
        worst = max(worst, await took(lambda: other.send_signal(signal.SIGUSR1)))
        worst = max(worst, await took(lambda: sandbox.run("true")))
        await asyncio.sleep(0.05)
    assert 0 < total < size
    slow = False
    await reader

    assert worst < 1 + setup.grace
    assert total == size
    assert (await process.wait()).exit_code == 0
    await other.kill()
