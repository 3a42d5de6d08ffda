"""SIGKILL at random points: nothing leaks, and every waiting call ends with the right error.

A round starts a client with every kind of call at once, kills one process of it at a random
moment, and looks at what the client was told and at what is left of it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.alone import use
from tests.support.seeds import seeded
from tests.support.victims import END, Victim
from tests.support.waiting import wait_until

ROUNDS = 25
SOAK_ROUNDS = 500

EVERY_CALL = {"a wait", "a many", "b stream", "b files", "c sync"}
OF_SANDBOX = {"a": {"a wait", "a many"}, "b": {"b stream", "b files"}}

Round = Callable[[Victim, Random], None]


@pytest.fixture
def state() -> Iterator[Path]:
    # Short: the path of a socket has to fit into 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="sandboxd-f"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _ready(victim: Victim, chance: Random) -> dict[str, str]:
    namespaces: dict[str, str] = victim.event("ready")["ready"]
    assert not victim.ended, victim.ended
    time.sleep(chance.uniform(0, 0.3))
    victim.look()
    return namespaces


def _agent_while_it_works(victim: Victim, chance: Random) -> None:
    _ready(victim, chance)
    moment = victim.hit(victim.agent().pid)
    _expect_lost(victim, EVERY_CALL, moment)
    victim.finish()


def _agent_while_it_starts(victim: Victim, chance: Random) -> None:
    agent = victim.agent()
    time.sleep(chance.uniform(0, 0.05))
    moment = victim.hit(agent.pid)
    for error in victim.errors(EVERY_CALL, moment).values():
        # Nothing was claimed yet, or it is gone: both are the infrastructure's doing, by name.
        assert error["error"] in {
            "SandboxLostError",
            "ConnectionLostError",
            "AgentUnreachableError",
            "LaunchFailedError",
        }, error
    victim.finish()


def _client(victim: Victim, chance: Random) -> None:
    if chance.random() < 0.5:
        _ready(victim, chance)
    else:
        victim.agent()
        time.sleep(chance.uniform(0, 0.1))
        victim.look()
    victim.hit(victim.process.pid)
    victim.process.wait()


def _init(victim: Victim, chance: Random) -> None:
    namespaces = _ready(victim, chance)
    which = chance.choice("ab")
    moment = victim.hit(victim.init(namespaces[which]).pid)
    _expect_lost(victim, OF_SANDBOX[which], moment)
    victim.finish()
    # The others went on until they were closed.
    spared = OF_SANDBOX["b" if which == "a" else "a"]
    assert not [each for each in victim.ended if each["task"] in spared], victim.ended


def _launcher(victim: Victim, chance: Random) -> None:
    _ready(victim, chance)
    moment = victim.hit(victim.launcher().pid)
    _expect_lost(victim, EVERY_CALL, moment)
    victim.finish()


def _expect_lost(victim: Victim, tasks: set[str], moment: float) -> None:
    for error in victim.errors(tasks, moment).values():
        assert error["error"] == "SandboxLostError", error
        assert error["reason"], error


HITS: dict[str, Round] = {
    "agent while it works": _agent_while_it_works,
    "agent while it starts": _agent_while_it_starts,
    "client": _client,
    "init": _init,
    "launcher": _launcher,
}


def _repeat(what: str, rounds: int, state: Path) -> None:
    chance = seeded(f"{rounds} kills of the {what}")
    for number in range(rounds):
        with Victim(state) as victim:
            try:
                HITS[what](victim, chance)
                wait_until(lambda: not victim.left(), within=END)
            except AssertionError as error:
                raise AssertionError(f"round {number}: {error}; left: {victim.left()}") from error


@pytest.mark.timeout(400)
@pytest.mark.parametrize("what", HITS)
def test_a_kill_at_a_random_point_leaks_nothing_and_ends_every_call(what: str, state: Path) -> None:
    _repeat(what, ROUNDS if "agent" not in what else (ROUNDS + 1) // 2, state)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("what", HITS)
def test_hundreds_of_kills_at_random_points_leak_nothing(what: str, state: Path) -> None:
    _repeat(what, SOAK_ROUNDS, state)


@pytest.mark.timeout(120)
def test_whoever_is_killed_together_the_processes_end_and_the_next_agent_sweeps(
    state: Path,
) -> None:
    """With agent, launcher and client gone at one stroke nobody is left to clean up at once."""
    chance = seeded("killing all at once")
    for _ in range(5):
        with Victim(state) as victim:
            _ready(victim, chance)
            targets = [victim.process.pid, victim.agent().pid, victim.launcher().pid]
            chance.shuffle(targets)
            for pid in targets:
                victim.hit(pid)
            victim.process.wait()
            wait_until(lambda: not victim.left_processes(), within=END)
            assert use(state) == ("none", "works\n")
            assert victim.left() == []


@pytest.mark.timeout(120)
def test_l3_a_killed_trainer_with_a_hundred_sandboxes_leaves_none(state: Path) -> None:
    code = """
import sandboxd, sys
made = [sandboxd.Sandbox() for _ in range(100)]
for each in made:
    each.start("sleep 300")
print('{"up": true}', flush=True)
sys.stdin.readline()
"""
    with Victim(state, code) as victim:
        victim.event("up", within=60)
        victim.look()
        assert len(victim.seen) > 300
        victim.hit(victim.process.pid)
        victim.process.wait()
        wait_until(lambda: not victim.left(), within=2 * END)
