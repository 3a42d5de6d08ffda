"""What the rollouts showed, and whether it is what had to be shown. Pure."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandboxd import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sandboxd.cli.demo.flaws import Flaw
    from sandboxd.cli.demo.rollouts import Played, Tried


@dataclass(frozen=True)
class Pass:
    """One pass over the problems: all its rollouts, and how long they took together."""

    played: Sequence[Played]
    wall_seconds: float

    @property
    def solved(self) -> int:
        """Problems whose last attempt passed."""
        return sum(played.solved for played in self.played)

    @property
    def tried(self) -> list[Tried]:
        """Every attempt."""
        return [tried for played in self.played for tried in played.tried]

    def exec_ms(self, percent: float) -> float:
        """Percentile of the time that the canonical programs took, in milliseconds.

        Broken attempts are left out: how long an endless loop takes is its limit.
        """
        right = sorted(t.seconds for t in self.tried if t.attempt.flaw is None)
        # Nearest rank: a time that was measured, not one in between.
        rank = max(1, math.ceil(len(right) * percent / 100))
        return right[rank - 1] * 1000 if right else math.nan

    @property
    def hidden_seconds(self) -> float:
        """Start-up, of all sandboxes together, that passed while the rollout was thinking."""
        return sum(played.startup.hidden for played in self.played if played.startup)

    @property
    def waited_seconds(self) -> float:
        """Start-up, of all sandboxes together, that a rollout had to wait for."""
        return sum(played.startup.waited for played in self.played if played.startup)

    @property
    def hidden_ratio(self) -> float:
        """Share of the start-up that was hidden, from 0 to 1."""
        total = self.hidden_seconds + self.waited_seconds
        return self.hidden_seconds / total if total else 1.0

    def causes(self) -> dict[str, int]:
        """How often each cause ended an attempt, canonical ones included."""
        return dict(Counter(tried.cause.value for tried in self.tried))

    def by_flaw(self) -> dict[Flaw, list[Tried]]:
        """The broken attempts, by what was wrong with them."""
        groups: dict[Flaw, list[Tried]] = {}
        for tried in self.tried:
            if tried.attempt.flaw:
                groups.setdefault(tried.attempt.flaw, []).append(tried)
        return groups


def scored_right(tried: Tried) -> bool:
    """Whether an attempt ended as it had to, by what is known to be wrong with it."""
    flaw = tried.attempt.flaw
    if flaw is None:
        return tried.passed
    # A bug exits, like a right solution: only its exit code tells.
    return tried.cause is flaw.cause and not tried.passed


def complaints(passes: Iterable[Pass], leaks: dict[str, int]) -> list[str]:
    """Every expectation that did not hold, as a sentence; empty if the demo succeeded."""
    found = []
    for played in (played for each in passes for played in each.played):
        task = played.rollout.problem.task_id
        if played.error is not None:
            found.append(f"{task}: {played.error}")
        elif not played.solved and all(scored_right(tried) for tried in played.tried):
            found.append(f"{task}: not solved")
        found += [
            f"{task}: {_surprise(tried)}" for tried in played.tried if not scored_right(tried)
        ]
    found += [f"left behind: {count} {what}" for what, count in leaks.items() if count]
    return found


def _surprise(tried: Tried) -> str:
    flaw = tried.attempt.flaw
    expected = flaw.cause if flaw else Cause.EXITED
    what = flaw.name if flaw else "the canonical solution"
    exit_code = "none" if tried.exit_code is None else tried.exit_code
    return f"{what} should end as {expected.value}, but was {tried.cause.value}, exit {exit_code}"
