"""What the random-fault run does with a sandbox, and how it finds out that something was lost."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox, ExecResult, SandboxError
from sandboxd.exceptions import FileError

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

PATIENCE = 90.0
"""Seconds after which a call hangs, with every fault that can come in its way."""

SHORT_LIFE = 30.0
"""`ttl` of sandboxes that are made and closed under faults: one whose close was lost ends so."""

RUNS = "/tmp/runs"


@dataclass
class Tally:
    """What happened. All but `done` and `errors` must stay empty."""

    done: Counter[str] = field(default_factory=Counter)
    """Operations by kind that ended with their result."""
    errors: Counter[str] = field(default_factory=Counter)
    """Operations that ended with an error, by kind and class: allowed, if the error is true."""
    differences: list[str] = field(default_factory=list)
    """Bytes or exit codes that are not the right ones."""
    double_runs: list[str] = field(default_factory=list)
    lies: list[str] = field(default_factory=list)
    """Commands that ran although their error said that they had not, or the other way round."""
    hangs: list[str] = field(default_factory=list)


class Worker:
    """One user of one sandbox, doing one thing after another.

    Args:
        name: Unique in the run.
        sandbox: The sandbox; others may use it, too.
        chance: What it does next.
        tally: Where it counts.
    """

    def __init__(
        self, name: str, sandbox: AsyncSandbox, chance: random.Random, tally: Tally
    ) -> None:
        self.name = name
        self.sandbox = sandbox
        self.chance = chance
        self.tally = tally
        self.expected: dict[str, set[int]] = {}
        """How often each command may have run."""
        self._number = 0
        self._path = f"/tmp/{name}"
        self._content = b""

    async def work(self, goes_on: Callable[[], bool]) -> None:
        """Work for as long as `goes_on`."""
        kinds: dict[str, Callable[[str], Awaitable[None]]] = {
            "run": self._run,
            "start": self._start,
            "write": self._write,
            "read": self._read,
            "sandbox": self._another_sandbox,
        }
        while goes_on():
            self._number += 1
            kind = self.chance.choices(list(kinds), weights=[6, 5, 2, 3, 1])[0]
            label = f"{self.name}-{self._number}"
            try:
                await asyncio.wait_for(kinds[kind](label), PATIENCE)
                self.tally.done[kind] += 1
            except asyncio.TimeoutError:
                self.tally.hangs.append(f"{kind} {label}")
                self.expected[label] = {0, 1}
            except SandboxError as error:
                self.tally.errors[f"{kind}: {type(error).__name__}"] += 1

    async def check(self) -> None:
        """Compare how often each command ran with what its caller was told."""
        lines = (await self.sandbox.files.read_text(RUNS)).split()
        ran = Counter(line for line in lines if line.startswith(f"{self.name}-"))
        for label, allowed in self.expected.items():
            times = ran[label]
            if times > 1:
                self.tally.double_runs.append(f"{label} ran {times} times")
            elif times not in allowed:
                self.tally.lies.append(f"{label} ran {times} times, its caller heard {allowed}")

    def _differs(self, label: str, what: str, seen: object, right: object) -> None:
        if seen != right:
            words = [
                f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)
                for value in (seen, right)
            ]
            self.tally.differences.append(f"{label}: {what} is {words[0]}, right is {words[1]}")

    async def _counted(self, label: str, call: Awaitable[ExecResult]) -> ExecResult:
        """Await a command that notes its run, and note what its caller heard of it."""
        self.expected[label] = {0, 1}
        try:
            result = await call
        except SandboxError as error:
            self.expected[label] = {0, 1} if error.may_have_run else {0}
            raise
        self.expected[label] = {1}
        return result

    async def _run(self, label: str) -> None:
        data = self.chance.randbytes(self.chance.randint(0, 300_000))
        code = self.chance.randrange(256)
        copy = f"/tmp/{label}.copy"
        command = f"echo {label} >> {RUNS}; tee {copy}; cat {copy} >&2; rm {copy}; exit {code}"
        pause = self.chance.choice(["", "", "sleep 0.2; ", "sleep 2; "])
        result = await self._counted(label, self.sandbox.run(pause + command, stdin=data))
        self._differs(label, "stdout", result.stdout_bytes, data)
        self._differs(label, "stderr", result.stderr_bytes, data)
        self._differs(label, "exit code", result.exit_code, code)

    async def _start(self, label: str) -> None:
        data = self.chance.randbytes(self.chance.randint(0, 600_000))
        code = self.chance.randrange(256)
        command = f"echo {label} >> {RUNS}; cat; echo over >&2; exit {code}"

        async def talk() -> ExecResult:
            process = await self.sandbox.start(command, stdin=True)
            seen = {"stdout": bytearray(), "stderr": bytearray()}

            async def listen() -> None:
                async for output in process:
                    seen[output.stream] += output.data

            listening = asyncio.ensure_future(listen())
            try:
                at = 0
                while at < len(data):
                    size = self.chance.randint(1, 100_000)
                    await process.write_stdin(data[at : at + size])
                    at += size
                await process.close_stdin()
                await listening
            except SandboxError as error:
                # It was started: a later call cannot say that it was not.
                error.may_have_run = True
                raise
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
            self._differs(label, "stdout", bytes(seen["stdout"]), data)
            self._differs(label, "stderr", bytes(seen["stderr"]), b"over\n")
            return await process.wait()

        result = await self._counted(label, talk())
        self._differs(label, "exit code", result.exit_code, code)

    async def _write(self, label: str) -> None:
        data = self.chance.randbytes(self.chance.randint(0, 1 << 20))
        old = self._content
        try:
            written = await self.sandbox.files.write(self._path, data)
        except SandboxError as error:
            # Whole or not at all, and the error says if it can have been.
            await self._find(label, [old, data] if error.may_have_run else [old])
            if error.may_have_run:
                # What is still under way may arrive later: the name is not used again.
                self._path, self._content = f"/tmp/{label}", b""
            raise
        self._content = data
        right = (len(data), hashlib.sha256(data).hexdigest())
        self._differs(label, "size and hash", (written.size, written.sha256), right)

    async def _read(self, label: str) -> None:
        await self._find(label, [self._content])

    async def _find(self, label: str, allowed: list[bytes]) -> None:
        try:
            found = await self.sandbox.files.read(self._path)
        except FileError:
            # Nothing was written yet.
            found = b""
        if found not in allowed:
            self._differs(label, "the file", found, allowed[-1])
        self._content = found

    async def _another_sandbox(self, label: str) -> None:
        async with AsyncSandbox(ttl=SHORT_LIFE) as sandbox:
            result = await sandbox.run(f"echo {label}")
            self._differs(label, "stdout", result.stdout, f"{label}\n")
