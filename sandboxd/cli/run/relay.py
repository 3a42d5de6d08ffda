"""Running one program with its output going straight to this process's own.

However this ends (the program, a limit, Ctrl-C, a reader that went away), the sandbox is closed
first, and every process in it is gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sandboxd import AsyncProcess, AsyncSandbox, ExecResult, SandboxError
from sandboxd.cli import console
from sandboxd.cli.run import streams

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHUNK = 65_536
"""Bytes read from standard input at once: what a pipe holds."""

_READ_AHEAD = 4
"""Chunks of standard input waiting to be sent; reading pauses above that."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Order:
    """What to run, and in which sandbox."""

    argv: Sequence[str]
    limits: dict[str, Any]
    """Limits of time, as arguments of `start`."""
    stdin: bool
    sandbox: dict[str, Any]
    """Arguments of `AsyncSandbox`."""


class SignaledError(Exception):
    """A signal to this process ended the program, so there is no result."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(f"ended by signal {number}")
        self.number = number


async def relay(order: Order, *, show: bool) -> ExecResult:
    """Run the program.

    Args:
        order: What to run.
        show: Whether its output goes to this process's own as it comes, or into the result.

    Raises:
        SignaledError: If this process was told to end, or nobody reads its output any more.
        UnwritableError: If the output cannot be shown for another reason.
    """
    with _interruptible() as signals:
        try:
            return await _play(order, show=show)
        except BrokenPipeError:
            raise SignaledError(signal.SIGPIPE) from None
        except asyncio.CancelledError:
            if not signals:
                raise
            raise SignaledError(signals[0]) from None


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Turn the first ending signal into a cancellation of the current task, and tell which."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    received: list[int] = []

    def cancel(number: int) -> None:
        received.append(number)
        if task is not None:
            task.cancel()

    for number in _ENDING:
        loop.add_signal_handler(number, cancel, number)
    try:
        yield received
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)


async def _play(order: Order, *, show: bool) -> ExecResult:
    async with AsyncSandbox(**order.sandbox) as sandbox:
        # As in a pipe, the program waits for whoever reads: nothing is dropped, nothing piles up.
        process = await sandbox.start(order.argv, stdin=order.stdin, output="block", **order.limits)
        feeding = asyncio.ensure_future(_feed(process)) if order.stdin else None
        try:
            if show:
                await _show(process)
            return await process.wait()
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)


async def _show(process: AsyncProcess) -> None:
    async for chunk in process:
        streams.write(chunk.stream, chunk.data)


async def _feed(process: AsyncProcess) -> None:
    """Pass standard input on until its end, or the program's."""
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(_READ_AHEAD)
    loop = asyncio.get_running_loop()
    # A daemon: a read from a pipe that nobody closes must not keep this process alive.
    threading.Thread(target=_read, args=(loop, chunks), daemon=True).start()
    # A program that has ended or closed its stdin says so in its result.
    with suppress(SandboxError):
        while chunk := await chunks.get():
            if isinstance(chunk, OSError):
                streams.note(partial(console.warn, f"cannot read stdin: {chunk.strerror}"))
                break
            await process.write_stdin(chunk)
        await process.close_stdin()


def _read(loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[bytes | OSError]) -> None:
    # The loop may be gone when a late read returns: then there is nobody to tell.
    with suppress(RuntimeError, asyncio.CancelledError):
        while True:
            chunk = _next_chunk()
            asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
            if not chunk or isinstance(chunk, OSError):
                return


def _next_chunk() -> bytes | OSError:
    """Read from standard input; one that was closed from the start is at its end."""
    try:
        return b"" if sys.stdin is None else os.read(sys.stdin.fileno(), _CHUNK)
    except OSError as error:
        return error
