"""A process that uses the SDK, watched and hit from outside."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.leaks import agent_cgroups
from tests.support.ordinary import ROOT, environment
from tests.support.processes import ZOMBIE, Process, all_processes, descendants, namespaces
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

END = 5.0
"""Seconds after which every waiting call must have ended."""


class Victim:
    """A client in a process of its own; leaving the block kills what is left of it.

    Args:
        state: Its state folder.
        code: What it does, telling JSON lines. Default: `tests/support/fault_client.py`.
    """

    def __init__(self, state: Path, code: str = "") -> None:
        self.state = state
        self.process = subprocess.Popen(
            [sys.executable, *(["-c", code] if code else ["-m", "tests.support.fault_client"])],
            cwd=ROOT,
            env=environment(state),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.seen: dict[int, Process] = {}
        self.agents: set[int] = set()
        self.ended: list[dict[str, Any]] = []
        """Calls that ended with an error while something else was waited for."""
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._events.put(json.loads(line))

    def event(self, key: str, within: float = END + 5) -> dict[str, Any]:
        """The next event that has `key`; calls that ended meanwhile are kept in `ended`."""
        deadline = time.monotonic() + within
        while True:
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                ended = [*map(str, self.ended)]
                raise AssertionError(f"no {key!r} within {within} s; ended: {ended}") from None
            if key in event:
                return event
            self.ended.append(event)

    def errors(self, tasks: set[str], since: float) -> dict[str, dict[str, Any]]:
        """The error of each of `tasks`; fails unless all have come `END` seconds after `since`."""
        found: dict[str, dict[str, Any]] = {}
        while not tasks <= found.keys():
            try:
                event = self._events.get(timeout=max(0.0, since + END + 1 - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{END} s later {tasks - found.keys()} still wait") from None
            if "task" in event:
                found[event["task"]] = event
                assert event["at"] <= since + END, event
        return found

    def look(self) -> None:
        """Remember every process that belongs to the client now."""
        for process in descendants(self.process.pid):
            self.seen[process.pid] = process
            if process.name == "sandboxd-agent":
                self.agents.add(process.pid)

    def named(self, name: str) -> list[Process]:
        """Living processes of the client with that name."""
        self.look()
        return [each for each in descendants(self.process.pid) if each.name == name[:15]]

    def agent(self) -> Process:
        """The client's agent, as soon as it has one."""
        return wait_until(lambda: self.named("sandboxd-agent"))[0]

    def launcher(self) -> Process:
        """The launcher, as soon as there is one."""
        agent = self.agent().pid
        return wait_until(lambda: [each for each in descendants(agent) if each.parent == agent])[0]

    def init(self, namespace: str) -> Process:
        """The init of a pid namespace."""
        launcher = self.launcher().pid
        return next(
            each
            for each in descendants(launcher)
            if each.parent == launcher and namespace in namespaces(each.pid)
        )

    def hit(self, pid: int) -> float:
        """Kill `pid` by SIGKILL; the moment on the machine's clock."""
        self.look()
        os.kill(pid, signal.SIGKILL)
        return time.monotonic()

    def finish(self) -> None:
        """Ask the client to end by itself and to show that a new sandbox works."""
        assert self.process.stdin is not None
        self.process.stdin.write("finish\n")
        self.process.stdin.flush()
        assert self.event("again", within=20)["again"] == "works\n"
        assert self.process.wait(20) == 0

    def left_processes(self) -> list[str]:
        """Processes of the client that are still here."""
        now = all_processes()
        return [
            str(now[pid])
            for pid, process in self.seen.items()
            if pid in now and now[pid].started == process.started and now[pid].state != ZOMBIE
        ]

    def left(self) -> list[str]:
        """What of the client is still here: its processes, its cgroups, its state."""
        found = self.left_processes()
        found += [str(path) for path in agent_cgroups(self.agents) if self._is_ours(path)]
        found += [str(path) for path in self.state.glob("*/*")]
        return found

    def _is_ours(self, cgroup: Path) -> bool:
        return any(f"sandboxd-{pid}-" in str(cgroup) for pid in self.agents)
