"""The random-fault run: everything at once, for a while, over connections that cannot be trusted.

    python -m tests.faults.soak --seconds 600 --seed 7

Commands, processes with stdin, files and sandboxes under random cuts, delays, throttles, stalls and
late copies, while the agent's process stands still now and then. Prints one line of JSON. Exit
status 1 unless every count of `wrong` is zero.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from sandboxd import AsyncSandbox
from tests.support.agent_probe import FLAT_BYTES, Resources, resources
from tests.support.faulty_agent import KEEPALIVE, FaultyAgent
from tests.support.leaks import agent_cgroups
from tests.support.processes import become_subreaper, descendants
from tests.support.schedules import KINDS
from tests.support.soak_work import SHORT_LIFE, Tally, Worker
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from random import Random

    from tests.support.fault_proxy import Plan

THREADS = 3
"""Event loops, each with a connection and a sandbox of its own."""

WORKERS = 3
"""Users of each sandbox."""

RETURN_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""What an allocator keeps for later would hide what an agent keeps: have it give all back."""

LONGEST_PAUSE = 2 * KEEPALIVE
"""Seconds for which the agent or the network may stand still and nothing be lost."""


class Chaos:
    """Random faults, one after another, until it is stopped."""

    def __init__(self, agent: FaultyAgent, chance: Random) -> None:
        self.agent = agent
        self.chance = chance
        self.pauses = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End all faults."""
        self._stop.set()
        self._thread.join()
        self.agent.pause(on=False)
        self.agent.proxy.stall(on=False)
        self.agent.proxy.plans()
        self.agent.proxy.default({})

    def _run(self) -> None:
        while not self._stop.wait(self.chance.uniform(0.01, 0.3)):
            deed = self.chance.choices(
                [self._fates, self._cut, self._calm, self._pause, self._stall, self._refuse],
                weights=[6, 4, 4, 1, 1, 1],
            )[0]
            deed()

    def _fates(self) -> None:
        kinds = [*KINDS.values(), self._slow]
        self.agent.proxy.plans(
            *(self.chance.choice(kinds)(self.chance) for _ in range(self.chance.randint(1, 6)))
        )
        self.agent.proxy.cut()

    def _slow(self, chance: Random) -> Plan:
        return {"delay": chance.uniform(0, 0.02), "cut_age": chance.uniform(0.5, 2)}

    def _cut(self) -> None:
        self.agent.proxy.cut()

    def _calm(self) -> None:
        self.agent.proxy.plans()
        self._stop.wait(self.chance.uniform(0, 1))

    def _pause(self) -> None:
        self.pauses += 1
        self.agent.pause(on=True)
        self._stop.wait(self.chance.uniform(0, LONGEST_PAUSE))
        self.agent.pause(on=False)

    def _stall(self) -> None:
        self.agent.proxy.stall(on=True)
        self._stop.wait(self.chance.uniform(0, LONGEST_PAUSE))
        self.agent.proxy.stall(on=False)

    def _refuse(self) -> None:
        self.agent.proxy.refuse(on=True)
        self._stop.wait(self.chance.uniform(0, KEEPALIVE))
        self.agent.proxy.refuse(on=False)


class Loop:
    """One event loop in a thread of its own, with a sandbox and its users."""

    def __init__(self, number: int, seed: int, tally: Tally, until: float) -> None:
        self.number = number
        self.seed = seed
        self.tally = tally
        self.until = until
        self.ready = threading.Event()
        self.calm = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001  (told at the end of the run)
            self.failure = error
        self.ready.set()

    async def _work(self) -> None:
        async with AsyncSandbox() as sandbox:
            await sandbox.run("touch /tmp/runs")
            self.ready.set()
            workers = [
                Worker(f"{self.number}.{n}", sandbox, self._chance(n), self.tally)
                for n in range(WORKERS)
            ]
            await asyncio.gather(
                *(worker.work(lambda: time.monotonic() < self.until) for worker in workers)
            )
            await asyncio.get_running_loop().run_in_executor(None, self.calm.wait)
            for worker in workers:
                await worker.check()

    def _chance(self, worker: int) -> Random:
        return random.Random(f"{self.seed}.{self.number}.{worker}")


def soak(agent: FaultyAgent, seconds: float, seed: int) -> dict[str, Any]:
    """Do everything for so many seconds, and compare."""
    # A first use, so that what an agent keeps for good is there before it is counted.
    asyncio.run(_first_use())
    pid = agent.process.pid
    wait_until(lambda: len(descendants(pid)) == 1, within=10)
    before = resources(pid)
    tally = Tally()
    loops = [Loop(n, seed, tally, time.monotonic() + seconds) for n in range(THREADS)]
    for loop in loops:
        loop.ready.wait()
    chaos = Chaos(agent, random.Random(seed))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(loop.thread.is_alive() for loop in loops):
        time.sleep(0.2)
    chaos.stop()
    for loop in loops:
        loop.calm.set()
        loop.thread.join()
    failures = [repr(loop.failure) for loop in loops if loop.failure is not None]
    counts = agent.proxy.counts()
    return {
        "seed": seed,
        "seconds": seconds,
        "connections": counts.connections,
        "cuts": counts.cuts,
        "late": counts.late,
        "agent_pauses": chaos.pauses,
        "agent_resident_bytes": resources(pid).resident,
        "done": dict(tally.done),
        "errors": dict(tally.errors),
        "failures": failures,
        "wrong": {
            "differences": len(tally.differences),
            "double_runs": len(tally.double_runs),
            "lies": len(tally.lies),
            "hangs": len(tally.hangs),
            "leaks": 0,
        },
        "details": [*tally.differences, *tally.double_runs, *tally.lies, *tally.hangs][:20],
        "_leaks": leaks(pid, before),
    }


async def _first_use() -> None:
    async with AsyncSandbox() as sandbox:
        await sandbox.run("true")


def leaks(pid: int, before: Resources) -> list[str]:
    """What an agent without sandboxes has more than before, once what was lost has run out."""
    try:
        wait_until(lambda: len(descendants(pid)) == 1, within=SHORT_LIFE + 20)
        wait_until(lambda: resources(pid).has_no_more_than(before), within=20)
    except AssertionError:
        held = f"held: {resources(pid)}, before: {before}"
        return [held, *(str(each) for each in descendants(pid))]
    grown = resources(pid).resident - before.resident
    return [f"{grown} bytes of memory"] if grown > FLAT_BYTES else []


def main(arguments: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 32))
    options = parser.parse_args(arguments)
    sys.stderr.write(f"random-fault run: repeat with --seed {options.seed}\n")
    become_subreaper()
    with FaultyAgent(env=RETURN_MEMORY) as agent:
        os.environ.update(agent.variables)
        summary = soak(agent, options.seconds, options.seed)
    # After the agent's end: its processes and cgroups.
    left = [str(each) for each in descendants() if each.state != "Z"]
    left += [str(path) for path in agent_cgroups({agent.process.pid})]
    found = [*summary.pop("_leaks"), *left]
    summary["wrong"]["leaks"] = len(found)
    summary["details"] += found
    sys.stdout.write(json.dumps(summary) + "\n")
    return 1 if any(summary["wrong"].values()) or summary["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
