"""Samples of the product, taken through its public API."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox
from sandboxd._native import info_request
from sandboxd.client._agent import current_agent
from sandboxd.client._blocking import BlockingTransport, drive
from sandboxd.client._channel import Channel
from sandboxd.client._loop import LoopTransport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sandboxd import ExecResult, Sandbox

# Its name among the contestants of a pass.
PRODUCT = "sandboxd"


def check(result: ExecResult, stdout: str = "") -> None:
    """Fails the benchmark when a command did not do what it was to do.

    Raises:
        RuntimeError: Another exit code or output.
    """
    if not result.ok or result.stdout != stdout:
        raise RuntimeError(f"an exec ended with {result!r}")


def exec_call(
    sandbox: AsyncSandbox, argv: Sequence[str], stdout: str = ""
) -> Callable[[], Awaitable[int]]:
    """One command run to its end, asynchronous API."""

    async def call() -> int:
        start = time.perf_counter_ns()
        result = await sandbox.run(argv)
        elapsed = time.perf_counter_ns() - start
        check(result, stdout)
        return elapsed

    return call


def blocking_exec_call(
    sandbox: Sandbox, argv: Sequence[str], stdout: str = ""
) -> Callable[[], int]:
    """The same, blocking API."""

    def call() -> int:
        start = time.perf_counter_ns()
        result = sandbox.run(argv)
        elapsed = time.perf_counter_ns() - start
        check(result, stdout)
        return elapsed

    return call


async def create_call() -> int:
    """From nothing to the first exec answered in a new sandbox; its end is not timed."""
    start = time.perf_counter_ns()
    sandbox = AsyncSandbox()
    result = await sandbox.run(["/bin/true"])
    elapsed = time.perf_counter_ns() - start
    check(result)
    await sandbox.close()
    return elapsed


def agent_socket() -> Path:
    """Where the agent of this process listens."""
    return Path(current_agent().path)


def info_call() -> Callable[[], Awaitable[int]]:
    """`Sandboxes.Info` on the loop's connection: the path of every call of the async API."""
    channel = Channel(LoopTransport(current_agent()))

    async def call() -> int:
        start = time.perf_counter_ns()
        await channel.call(info_request())
        return time.perf_counter_ns() - start

    return call


def blocking_info_call() -> Callable[[], int]:
    """The same on the thread's connection: the path of every call of the sync API."""
    channel = Channel(BlockingTransport(current_agent()))

    def call() -> int:
        start = time.perf_counter_ns()
        drive(channel.call(info_request()))
        return time.perf_counter_ns() - start

    return call
