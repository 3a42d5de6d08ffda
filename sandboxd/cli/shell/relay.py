"""Keys to a process, its output to the screen, until it ends or its person leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sandboxd import AsyncProcess, ExecResult, SandboxError
from sandboxd.cli.shell import screen
from sandboxd.cli.shell.keys import LeavingKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK = 4096
"""Bytes of typing read at once."""

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Leave(Exception):  # noqa: N818  (not an error)
    """The person left: by the keys, or because the terminal or this process was ended."""

    def __init__(self, number: int | None = None) -> None:
        """Keep the signal, if there was one."""
        super().__init__("the terminal was left")
        self.number = number


async def relay(process: AsyncProcess) -> ExecResult:
    """Connect this process's terminal to that of `process`.

    Returns:
        How the process ended; its output was shown.

    Raises:
        Leave: If it runs on.
        SandboxError: If its end cannot be known.
    """
    with screen.handed_over():
        return await _relay(process)


async def _relay(process: AsyncProcess) -> ExecResult:
    typed: asyncio.Queue[bytes] = asyncio.Queue()
    shown = asyncio.ensure_future(_show(process))
    sizes = asyncio.Event()
    left: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def leave(number: int | None = None) -> None:
        if not left.done():
            left.set_exception(Leave(number))

    with _listening(typed, sizes, leave):
        helpers = [
            asyncio.ensure_future(_type(process, typed, leave)),
            asyncio.ensure_future(_resize(process, sizes)),
        ]
        try:
            await asyncio.wait({shown, left}, return_when=asyncio.FIRST_COMPLETED)
            if left.done():
                left.result()
            shown.result()
        finally:
            for each in (shown, *helpers):
                each.cancel()
            await asyncio.gather(shown, *helpers, return_exceptions=True)
            if left.done():
                left.exception()
    return await process.wait()


@contextmanager
def _listening(
    typed: asyncio.Queue[bytes], sizes: asyncio.Event, leave: Callable[..., None]
) -> Iterator[None]:
    """Hear of keys, of a new size, and of signals that end this process."""
    loop = asyncio.get_running_loop()
    keyboard = sys.stdin.fileno()

    def read() -> None:
        try:
            data = os.read(keyboard, _CHUNK)
        except OSError:
            data = b""
        if data:
            typed.put_nowait(data)
        else:
            # Hung up: it stays readable.
            loop.remove_reader(keyboard)
            leave(signal.SIGHUP)

    loop.add_reader(keyboard, read)
    loop.add_signal_handler(signal.SIGWINCH, sizes.set)
    for number in _ENDING:
        loop.add_signal_handler(number, leave, number)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        for number in (signal.SIGWINCH, *_ENDING):
            loop.remove_signal_handler(number)


async def _show(process: AsyncProcess) -> None:
    async for output in process:
        try:
            screen.write(output.data)
        except OSError:
            raise Leave(signal.SIGHUP) from None


async def _type(
    process: AsyncProcess, typed: asyncio.Queue[bytes], leave: Callable[..., None]
) -> None:
    keys = LeavingKeys()
    # A process that has ended says so in its result.
    with suppress(SandboxError):
        while True:
            passed, leaves = keys.take(await typed.get())
            if leaves:
                leave()
            if passed:
                await process.write_stdin(passed)


async def _resize(process: AsyncProcess, sizes: asyncio.Event) -> None:
    with suppress(SandboxError):
        while True:
            size = screen.size()
            await process.resize(size.rows, size.columns)
            await sizes.wait()
            sizes.clear()
