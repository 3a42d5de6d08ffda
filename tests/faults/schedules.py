"""Z1: commands under random cuts of their connections, each compared with a run without any.

    python -m tests.faults.schedules --count 1000 --seed 7

The command appends one line to a file, reads 1 MiB of stdin, writes 256 KiB to each stream and
exits with a code. Prints a summary as JSON, and every difference; exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from sandboxd import AsyncSandbox, SandboxError
from tests.support import reference
from tests.support.faulty_agent import FaultyAgent
from tests.support.schedules import CHUNKS, STDIN_BYTES, STREAM_BYTES, Schedule, schedule

if TYPE_CHECKING:
    from sandboxd import ExecResult
    from tests.support.fault_proxy import FaultProxy

PATIENCE = 30.0
"""Seconds after which a command under cuts hangs."""

COMMAND = (
    "echo ran >> /tmp/{n}.runs; sha256sum > /tmp/{n}.stdin; "
    "seq 1 60000 | head -c {size}; seq 60001 120000 | head -c {size} >&2; exit {code}"
)


def _uncut(first: int, last: int) -> bytes:
    return reference.output(["seq", str(first), str(last)])[:STREAM_BYTES]


STDOUT, STDERR = _uncut(1, 60_000), _uncut(60_001, 120_000)


class Trial:
    """One command under one schedule."""

    def __init__(
        self, sandbox: AsyncSandbox, proxy: FaultProxy, number: int, plan: Schedule
    ) -> None:
        self.sandbox = sandbox
        self.proxy = proxy
        self.number = number
        self.plan = plan
        self.exec_id = f"z1-{number}"
        self.command = COMMAND.format(n=number, size=STREAM_BYTES, code=plan.exit_code)
        self.stdin = random.Random(number).randbytes(STDIN_BYTES)

    async def differences(self) -> list[str]:
        """Run it, and compare with what it does on a good day."""
        self.proxy.plans(*self.plan.plans)
        # The connection that is there is cut as well: the first plan is for the next one.
        self.proxy.cut()
        try:
            result = await asyncio.wait_for(self._run(), PATIENCE)
        except (SandboxError, asyncio.TimeoutError) as error:
            return [f"the call raised {error!r}"]
        finally:
            self.proxy.plans()
        found = self._compare("under cuts", result)
        # On a connection that holds: the id attaches.
        again = await self._again()
        found += self._compare("asked for again", again)
        runs = (await self.sandbox.run(f"cat /tmp/{self.number}.runs")).stdout
        if runs != "ran\n":
            found.append(f"it ran {runs.count('ran')} times")
        seen = (await self.sandbox.run(f"cat /tmp/{self.number}.stdin")).stdout[:64]
        if seen != hashlib.sha256(self.stdin).hexdigest():
            found.append("its stdin was not what was sent")
        await self.sandbox.run(f"rm -f /tmp/{self.number}.*")
        return found

    async def _run(self) -> ExecResult:
        if self.plan.call == "run":
            return await self.sandbox.run(self.command, stdin=self.stdin, exec_id=self.exec_id)
        process = await self.sandbox.start(self.command, stdin=True, exec_id=self.exec_id)
        size = STDIN_BYTES // CHUNKS
        for chunk in range(CHUNKS):
            await process.write_stdin(self.stdin[chunk * size : (chunk + 1) * size])
            if chunk in self.plan.cut_after_chunks:
                self.proxy.cut()
        await process.close_stdin()
        return await process.wait()

    async def _again(self) -> ExecResult:
        if self.plan.call == "run":
            return await self.sandbox.run(self.command, stdin=self.stdin, exec_id=self.exec_id)
        process = await self.sandbox.start(self.command, stdin=True, exec_id=self.exec_id)
        return await process.wait()

    def _compare(self, when: str, result: ExecResult) -> list[str]:
        pairs: dict[str, tuple[Any, Any]] = {
            "exit code": (result.exit_code, self.plan.exit_code),
            "cause": (result.cause.value, "exited"),
            "stdout": (result.stdout_bytes, STDOUT),
            "stderr": (result.stderr_bytes, STDERR),
            "totals": (
                (result.stdout_total_bytes, result.stderr_total_bytes),
                (STREAM_BYTES, STREAM_BYTES),
            ),
            "truncated": (result.truncated, False),
        }
        return [
            f"{when}, its {what} is another: {_short(seen)}"
            for what, (seen, right) in pairs.items()
            if seen != right
        ]


def _short(value: object) -> object:
    return f"{len(value)} bytes" if isinstance(value, bytes) else value


async def run(proxy: FaultProxy, count: int, seed: int) -> dict[str, Any]:
    """Run `count` schedules one after another; what happened and what differed."""
    chance = random.Random(seed)
    kinds: Counter[str] = Counter()
    differences: list[str] = []
    before = proxy.counts()
    async with AsyncSandbox() as sandbox:
        await sandbox.ready()
        for number in range(count):
            plan = schedule(chance)
            kinds.update([plan.call, *plan.kinds])
            kinds["between stdin chunks"] += len(plan.cut_after_chunks)
            found = await Trial(sandbox, proxy, number, plan).differences()
            differences += [f"schedule {number}: {each}; {plan}" for each in found]
    after = proxy.counts()
    return {
        "seed": seed,
        "schedules": count,
        "cuts": after.cuts - before.cuts,
        "late": after.late - before.late,
        "kinds": dict(kinds),
        "differences": differences,
    }


def main(arguments: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 32))
    options = parser.parse_args(arguments)
    with FaultyAgent() as agent:
        os.environ.update(agent.variables)
        summary = asyncio.run(run(agent.proxy, options.count, options.seed))
    sys.stdout.write(json.dumps(summary) + "\n")
    return 1 if summary["differences"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
