"""Random schedules of what happens to the connections of one command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.support.fault_proxy import Plan

STDIN_BYTES = 1 << 20
STREAM_BYTES = 256 << 10
CHUNKS = 16
"""Writes of stdin, where it is written and not sent with the command."""

MOST_CUTS = 4

KINDS: dict[str, Callable[[Random], Plan]] = {
    # In the greeting or in the request: it cannot have started by this connection.
    "before send": lambda chance: {"cut_to_agent": chance.randint(0, 400)},
    "in stdin": lambda chance: {"cut_to_agent": chance.randint(400, STDIN_BYTES + 400)},
    # The whole of the request is with the agent, as a rule, and next to nothing comes back.
    "after send": lambda chance: {"cut_to_client": chance.randint(18, 60)},
    "in output": lambda chance: {"cut_to_client": chance.randint(60, 2 * STREAM_BYTES)},
    # The command has long ended when this connection, which is mute from some byte on, does.
    "after exit": lambda chance: {
        "mute_to_client": chance.randint(18, 2 * STREAM_BYTES),
        "cut_age": chance.uniform(0.2, 0.5),
    },
    "any time": lambda chance: {"cut_age": chance.uniform(0.001, 0.1)},
    # What was said on it arrives a second time, behind what is said on the next one.
    "late": lambda chance: {
        "late_after": chance.randint(20, STDIN_BYTES // 8),
        "late_by": chance.uniform(0, 0.3),
    },
    "slow": lambda chance: {
        "bytes_per_second": chance.randint(2, 20) << 20,
        "cut_to_client": chance.randint(18, 2 * STREAM_BYTES),
    },
}


@dataclass(frozen=True)
class Schedule:
    """How one command is run, and the fates of the connections that it meets."""

    call: Literal["run", "start"]
    exit_code: int
    kinds: tuple[str, ...]
    plans: tuple[Plan, ...]
    cut_after_chunks: frozenset[int]
    """Writes of stdin after which every connection is cut."""


def schedule(chance: Random) -> Schedule:
    """Make a schedule."""
    call: Literal["run", "start"] = "run" if chance.random() < 0.5 else "start"
    kinds = tuple(chance.choices(list(KINDS), k=chance.randint(1, MOST_CUTS)))
    between = chance.randint(0, 2) if call == "start" else 0
    return Schedule(
        call=call,
        exit_code=chance.randrange(256),
        kinds=kinds,
        plans=tuple(KINDS[kind](chance) for kind in kinds),
        cut_after_chunks=frozenset(chance.sample(range(CHUNKS), between)),
    )
