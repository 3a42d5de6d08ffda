"""An agent of its own behind a fault proxy, and programs that use the SDK through it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.fault_proxy import ROOT, FaultProxy
from tests.support.ordinary import environment
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

AGENT = os.environ.get("SANDBOXD_AGENT_BINARY", ROOT / "sandboxd" / "_bin" / "sandboxd-agent")

KEEPALIVE = 1.0
"""Seconds between two signs of life of a connection that calls wait on."""


class FaultyAgent:
    """An agent and its proxy. The agent ends politely, and must, when the block is left.

    Args:
        keepalive: `SANDBOXD_KEEPALIVE` of the programs that use it.
        env: More variables of the agent's process.
    """

    def __init__(
        self, *, keepalive: float = KEEPALIVE, env: Mapping[str, str] | None = None
    ) -> None:
        # Short: the path of a socket has to fit into 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="sandboxd-f"))
        path = self.folder / "agent.sock"
        self.process = subprocess.Popen(
            [AGENT, "serve", "--listen", path, "--state", self.folder / "state"],
            stdin=subprocess.DEVNULL,
            env=environment(self.folder, **(env or {})),
        )
        try:
            wait_until(path.is_socket, within=20)
            self.proxy = FaultProxy(self.folder / "proxy.sock", path)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        self.variables = {
            "SANDBOXD_SOCKET": str(self.proxy.path),
            "SANDBOXD_KEEPALIVE": str(keepalive),
        }
        """What tells the SDK of a program to go through the proxy."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pause(on=False)
        self.process.terminate()
        status = self.process.wait(20)
        with self.proxy:
            pass
        shutil.rmtree(self.folder)
        assert status in {0, -signal.SIGKILL}, f"the agent ended with status {status}"

    def pause(self, *, on: bool) -> None:
        """Stop the agent's process, or let it go on."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)


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


class Client:
    """A program that uses the SDK through the proxy and tells JSON lines.

    Args:
        agent: The agent that it uses.
        body: What it does with a `sandbox` that is ready, as lines of Python.
    """

    def __init__(self, agent: FaultyAgent, body: str) -> None:
        lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", f"{PRELUDE}{lines}\nasyncio.run(main())\n"],
            cwd=ROOT,
            env=environment(agent.folder / "client", **agent.variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def told(self) -> dict[str, Any]:
        """The next line that it tells."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the client ended without a word"
        value: dict[str, Any] = json.loads(line)
        return value

    def paused(self) -> None:
        """Wait until it pauses."""
        assert self.told() == {"paused": True}

    def go_on(self) -> None:
        """End its pause."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
