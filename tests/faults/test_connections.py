"""The connection is cut or falls silent: calls are repaired by attaching, never by running again.

The agent is a process of its own, and the client another one that reaches it through a proxy.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import reference
from tests.support.fault_proxy import FaultProxy
from tests.support.ordinary import ROOT, environment
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

AGENT = os.environ.get("SANDBOXD_AGENT_BINARY", ROOT / "sandboxd" / "_bin" / "sandboxd-agent")
KEEPALIVE = 1.0

PRELUDE = """
import asyncio, hashlib, json, sys, time
import sandboxd
from sandboxd import AsyncSandbox

def tell(**value):
    print(json.dumps(value), flush=True)

def pause():
    "Let the test change the connection."
    tell(paused=True)
    sys.stdin.readline()

async def main():
    async with AsyncSandbox() as sandbox:
        await sandbox.ready()
"""


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    """A proxy before an agent of its own; the agent is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="sandboxd-f"))
    path = folder / "agent.sock"
    agent = subprocess.Popen(
        [AGENT, "serve", "--listen", path, "--state", folder / "state"],
        stdin=subprocess.DEVNULL,
        env=environment(folder),
    )
    try:
        wait_until(path.is_socket)
        with FaultProxy(folder / "proxy.sock", path) as made:
            yield made
    finally:
        agent.terminate()
        assert agent.wait(10) == 0
        shutil.rmtree(folder)


class Client:
    """A program that uses the SDK through the proxy and tells JSON lines."""

    def __init__(self, proxy: FaultProxy, body: str) -> None:
        lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{PRELUDE}{lines}\nasyncio.run(main())\n"],
            cwd=ROOT,
            env=environment(
                proxy.path.parent / "client",
                SANDBOXD_SOCKET=str(proxy.path),
                SANDBOXD_KEEPALIVE=str(KEEPALIVE),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def told(self) -> dict[str, object]:
        """The next line that it tells."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the client ended without a word"
        value: dict[str, object] = json.loads(line)
        return value

    def go_on(self) -> None:
        """End its pause."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def test_h2_a_reset_connection_is_repaired_and_nothing_runs_twice(proxy: FaultProxy) -> None:
    body = """
pause()
result = await sandbox.run("echo ran >> /tmp/runs; yes | head -c 1048576")
pause()
runs = (await sandbox.run("cat /tmp/runs")).stdout
tell(exit_code=result.exit_code, total=len(result.stdout_bytes), runs=runs)
"""
    with Client(proxy, body) as client:
        assert client.told() == {"paused": True}
        before = proxy.connections
        proxy.cut_after = 4096
        client.go_on()
        # The cut comes with the first reply; from the second connection on all is well.
        wait_until(lambda: proxy.connections > before)
        proxy.cut_after = None
        assert client.told() == {"paused": True}
        client.go_on()

        assert client.told() == {"exit_code": 0, "total": 1_048_576, "runs": "ran\n"}


@pytest.mark.timeout(120)
def test_r1_a_reply_that_is_lost_a_hundred_times_means_one_run_each_time(
    proxy: FaultProxy,
) -> None:
    body = """
pause()
codes = [(await sandbox.run(f"echo {n} >> /tmp/f; exit {n}")).exit_code for n in range(100)]
pause()
tell(codes=codes, lines=(await sandbox.run("cat /tmp/f")).stdout.split())
"""
    with Client(proxy, body) as client:
        assert client.told() == {"paused": True}
        # Some connections live for one exec, some for a few: every cut falls somewhere else.
        proxy.cut_every = 0.037
        client.go_on()
        assert client.told() == {"paused": True}
        cuts = proxy.connections
        proxy.cut_every = None
        client.go_on()

        numbers = list(range(100))
        assert client.told() == {"codes": numbers, "lines": [str(n) for n in numbers]}
        assert cuts > 2


@pytest.mark.timeout(120)
def test_r4_a_stream_that_is_cut_ten_times_a_second_arrives_whole_and_once(
    proxy: FaultProxy,
) -> None:
    body = """
pause()
process = await sandbox.start("echo ran >> /tmp/runs; seq 1 100000; sleep 2; echo end >&2; exit 5")
seen = {"stdout": b"", "stderr": b""}
async for chunk in process:
    seen[chunk.stream] += chunk.data
code = (await process.wait()).exit_code
pause()
digest = hashlib.sha256(seen["stdout"]).hexdigest()
runs = (await sandbox.run("cat /tmp/runs")).stdout
tell(code=code, total=len(seen["stdout"]), hash=digest, stderr=seen["stderr"].decode(), runs=runs)
"""
    with Client(proxy, body) as client:
        assert client.told() == {"paused": True}
        proxy.cut_every = 0.1
        client.go_on()
        assert client.told() == {"paused": True}
        proxy.cut_every = None
        client.go_on()

        assert client.told() == {
            "code": 5,
            "total": 588_895,
            "hash": reference.seq_hash(1, 100_000),
            "stderr": "end\n",
            "runs": "ran\n",
        }


@pytest.mark.timeout(120)
def test_stdin_over_a_connection_that_is_cut_arrives_once(proxy: FaultProxy) -> None:
    body = """
pause()
process = await sandbox.start("sha256sum", stdin=True)
for n in range(60):
    await process.write_stdin(bytes([n]) * 20_000)
    await asyncio.sleep(0.02)
await process.close_stdin()
result = await process.wait()
tell(hash=result.stdout[:64])
pause()
"""
    with Client(proxy, body) as client:
        assert client.told() == {"paused": True}
        proxy.cut_every = 0.1
        client.go_on()
        right = hashlib.sha256(b"".join(bytes([n]) * 20_000 for n in range(60))).hexdigest()
        assert client.told() == {"hash": right}
        proxy.cut_every = None
        client.told()
        client.go_on()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("timeout", ["timeout=2", ""])
def test_t15_an_agent_that_falls_silent_is_a_typed_error_after_a_bounded_time(
    proxy: FaultProxy, timeout: str
) -> None:
    body = f"""
pause()
began = time.monotonic()
try:
    await sandbox.run("true", {timeout})
except sandboxd.SandboxError as error:
    tell(error=type(error).__name__, maybe=error.may_have_run, took=time.monotonic() - began)
pause()
"""
    with Client(proxy, body) as client:
        assert client.told() == {"paused": True}
        proxy.silent = True
        client.go_on()
        told = client.told()
        proxy.silent = False

        assert told["error"] == "ConnectionLostError"
        assert told["maybe"] is True
        assert isinstance(told["took"], float)
        if timeout:
            # Deadline, grace and three keepalives, and a second for a busy machine.
            assert told["took"] <= 2 + 0.5 + 3 * KEEPALIVE + 1
        client.told()
        client.go_on()


def test_an_agent_that_is_cut_off_for_a_while_is_waited_for(proxy: FaultProxy) -> None:
    """A pause is no loss: what was asked in it is answered when it is over."""
    body = """
pause()
tell(out=(await sandbox.run("echo on")).stdout)
"""
    with Client(proxy, body) as client:
        assert client.told() == {"paused": True}
        proxy.silent = True
        client.go_on()
        timer = threading.Timer(1.0, lambda: setattr(proxy, "silent", False))
        timer.start()
        began = time.monotonic()
        assert client.told() == {"out": "on\n"}
        assert time.monotonic() - began >= 0.9
        timer.join()
