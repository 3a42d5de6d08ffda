"""Where the time of an exec goes: `python -m tests.benchmarks.stages [--count N] [--gap SECONDS]`.

Follows execs of /bin/true from the Python call through agent and init and back, with the kernel's
tracer. Prints the median of each stage, and the system calls that each process makes per exec.
Needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from sandboxd import AsyncSandbox
from tests.benchmarks.processes import agent_below, inits_below
from tests.benchmarks.product import check
from tests.benchmarks.tracing import tracing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.benchmarks.tracing import Event

_RECEIVE = ("read", "recvfrom", "recvmsg", "readv")
_SEND = ("write", "sendto", "sendmsg", "writev")
_CLONE = ("clone", "clone3", "vfork")
_REAP = ("wait4", "waitid")
_WARM_UP = 50

# Each moment is the first one after the moment before it that fits.
_STAGES = (
    "Python call, until it is written to the socket",
    "until the agent has it",
    "agent: decode, pipes, until it sends to init",
    "agent: send with descriptors",
    "until init has it",
    "init: until it clones",
    "clone until the program is started",
    "program runs, until it is gone",
    "until init has reaped it",
    "init: until it sends the end",
    "until the agent has it",
    "agent: drain, encode, until it replies",
    "until Python has read it",
    "decode, until the coroutine runs again",
)


@dataclass(frozen=True, slots=True)
class _Actors:
    python: int
    agent: int
    init: int


class _Walk:
    """Goes through the events of one exec."""

    def __init__(self, events: Sequence[Event], start: float) -> None:
        self._events = iter(events)
        self.moments = [start]

    def until(self, pid: int, kind: str, calls: Iterable[str] = ()) -> Event:
        """Goes on to the next such event.

        Raises:
            LookupError: There is none.
        """
        for event in self._events:
            if event.kind != kind or (pid and event.pid != pid):
                continue
            if kind == "sys_exit" and event.result <= 0:
                continue
            if not calls or event.call in calls:
                self.moments.append(event.time)
                return event
        raise LookupError(f"no {kind} of {pid} among {calls}")


def _moments(
    events: Sequence[Event], actors: _Actors, start: float, end: float
) -> list[float] | None:
    """The moments between the stages of one exec; None where one of them was not seen."""
    try:
        return _walk(events, actors, start, end)
    except LookupError as error:
        sys.stderr.write(f"one exec is left out: {error}\n")
        return None


def _walk(events: Sequence[Event], actors: _Actors, start: float, end: float) -> list[float]:
    walk = _Walk([event for event in events if start <= event.time <= end], start)
    walk.until(actors.python, "sys_enter", _SEND)
    walk.until(actors.agent, "sys_exit", _RECEIVE)
    walk.until(actors.agent, "sys_enter", ("sendmsg",))
    walk.until(actors.agent, "sys_exit", ("sendmsg",))
    # Init may run on the other core before the agent's call returns.
    after = walk.moments[-2]
    walk = _resume(events, walk.moments, after, end)
    walk.until(actors.init, "sys_exit", _RECEIVE)
    walk.until(actors.init, "sys_enter", _CLONE)
    program = walk.until(0, "sched_process_exec").pid
    walk.until(program, "sched_process_exit")
    walk.until(actors.init, "sys_exit", _REAP)
    walk.until(actors.init, "sys_enter", _SEND)
    walk.until(actors.agent, "sys_exit", _RECEIVE)
    walk.until(actors.agent, "sys_enter", _SEND)
    walk.until(actors.python, "sys_exit", _RECEIVE)
    return [*walk.moments, end]


def _resume(events: Sequence[Event], moments: list[float], start: float, end: float) -> _Walk:
    walk = _Walk([event for event in events if start <= event.time <= end], start)
    walk.moments = moments
    return walk


async def _run(count: int, gap: float) -> None:
    async with AsyncSandbox() as sandbox:
        await sandbox.ready()
        agent = agent_below(os.getpid())
        actors = _Actors(python=os.getpid(), agent=agent, init=inits_below(agent)[0])
        calls = []
        with tracing([actors.python, actors.agent, actors.init]) as tracer:
            for _ in range(count + _WARM_UP):
                await asyncio.sleep(gap)
                start = time.monotonic_ns() / 1e3
                result = await sandbox.run(["/bin/true"])
                calls.append((start, time.monotonic_ns() / 1e3))
                check(result)
            events = tracer.events()
        _print(events, actors, calls[_WARM_UP:])


def _print(events: list[Event], actors: _Actors, calls: list[tuple[float, float]]) -> None:
    paths = [
        path for start, end in calls if (path := _moments(events, actors, start, end)) is not None
    ]
    lines = [f"{len(paths)} execs, median {median(end - start for start, end in calls):.0f} µs", ""]
    for number, stage in enumerate(_STAGES):
        taken = median(path[number + 1] - path[number] for path in paths)
        lines.append(f"{taken:8.0f} µs  {stage}")
    for name, pid in (("Python", actors.python), ("agent", actors.agent), ("init", actors.init)):
        lines.append(f"\nsystem calls of {name} per exec:")
        seen = Counter(
            event.call
            for event in events
            if event.pid == pid and event.kind == "sys_enter" and event.time >= calls[0][0]
        )
        lines += [f"{times / len(calls):8.1f}  {call}" for call, times in seen.most_common(20)]
    sys.stdout.write("\n".join(lines) + "\n")


def main() -> None:
    """Parses the command line and prints the stages."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stages", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--gap", type=float, default=0, help="idle seconds before each exec")
    arguments = parser.parse_args()
    asyncio.run(_run(arguments.count, arguments.gap))


if __name__ == "__main__":
    main()
