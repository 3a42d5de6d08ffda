"""A Unix socket that answers with what it was sent: the least that a call can cost."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from tests.benchmarks.references.program import BUILT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import ExitStack
    from pathlib import Path

# About as long as a small call with its header.
_MESSAGE = b"x" * 80


def start_echo(work: Path, stack: ExitStack) -> Path:
    """Starts the C server and returns the path of its socket."""
    path = work / "echo.sock"
    server = subprocess.Popen([BUILT / "echo", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stack.callback(server.communicate)
    assert server.stdout is not None
    if server.stdout.readline() != b"ready\n":
        raise RuntimeError("the echo server did not start")
    return path


async def streams_call(path: Path) -> Callable[[], Awaitable[int]]:
    """One message there and back over asyncio streams."""
    reader, writer = await asyncio.open_unix_connection(path)

    async def call() -> int:
        start = time.perf_counter_ns()
        writer.write(_MESSAGE)
        await reader.readexactly(len(_MESSAGE))
        return time.perf_counter_ns() - start

    return call


def blocking_call(path: Path, stack: ExitStack) -> Callable[[], int]:
    """One message there and back over a blocking socket."""
    client = stack.enter_context(socket.socket(socket.AF_UNIX))
    client.connect(str(path))

    def call() -> int:
        start = time.perf_counter_ns()
        client.sendall(_MESSAGE)
        client.recv(len(_MESSAGE), socket.MSG_WAITALL)
        return time.perf_counter_ns() - start

    return call
