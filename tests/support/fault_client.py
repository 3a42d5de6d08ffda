"""A trainer in miniature, to be hit at any moment: every kind of call at once, told line by line.

Prints one JSON object a line: the agent's pid and the pid namespaces of its sandboxes once they
are known, then every call that ended with an error. A line on stdin asks it to finish: it ends
what it runs, shows that a new sandbox works, and exits.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import sandboxd
from sandboxd import AsyncSandbox, Sandbox, SandboxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def say(**event: Any) -> None:
    """Print one event; the clock is the machine's, so the reader's too."""
    sys.stdout.write(json.dumps({"at": time.monotonic(), **event}) + "\n")
    sys.stdout.flush()


async def until_it_fails(name: str, call: Callable[[], Awaitable[object]]) -> None:
    """Repeat `call` until it raises, and tell what."""
    try:
        while True:
            await call()
    except SandboxError as error:
        tell(name, error)


def tell(name: str, error: SandboxError) -> None:
    """Tell how a call failed."""
    reason = getattr(error, "reason", "")
    say(task=name, error=type(error).__name__, reason=reason, message=str(error))


async def stream(sandbox: AsyncSandbox) -> None:
    """Read a process that never stops talking."""
    process = await sandbox.start("while :; do echo x; sleep 0.01; done")
    async for _ in process:
        pass
    await process.wait()


async def files(sandbox: AsyncSandbox) -> None:
    """Write and read back."""
    await sandbox.files.write("/tmp/f", bytes(1 << 20))
    await sandbox.files.read("/tmp/f")


async def claim() -> None:
    """Make and release one more sandbox."""
    async with AsyncSandbox() as sandbox:
        await sandbox.run("true")


def blocking(sandbox: Sandbox) -> None:
    """The sync form, in a thread of its own."""
    try:
        sandbox.run("sleep 300")
    except SandboxError as error:
        tell("c sync", error)


async def main() -> None:
    """Use three sandboxes until told to finish."""
    first, second, third = AsyncSandbox(), AsyncSandbox(), Sandbox()
    thread = threading.Thread(target=blocking, args=(third,), daemon=True)
    thread.start()
    tasks = [
        asyncio.ensure_future(until_it_fails(name, call))
        for name, call in {
            "a wait": lambda: first.run("sleep 300"),
            "a many": lambda: first.run("true"),
            "b stream": lambda: stream(second),
            "b files": lambda: files(second),
            "claims": claim,
        }.items()
    ]
    try:
        names = [
            (await each.run("readlink /proc/self/ns/pid")).stdout.strip()
            for each in (first, second)
        ]
        say(ready=dict(zip("ab", names, strict=True)), agent=sandboxd.agent_info().pid)
    except SandboxError as error:
        tell("start", error)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=5)
    for sandbox in (first, second):
        await sandbox.close()
    third.close()
    thread.join(5)
    async with AsyncSandbox() as sandbox:
        say(again=(await sandbox.run("echo works")).stdout)


if __name__ == "__main__":
    asyncio.run(main())
