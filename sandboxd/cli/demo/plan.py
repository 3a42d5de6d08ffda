"""What every rollout will do. Pure: the same arguments give the same plan on every machine."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandboxd.cli.demo.flaws import Flaw
    from sandboxd.cli.demo.problems import Problem

THINK_SIGMA = 0.6
"""Spread of the think times: log-normal, so that a tenth takes 2.2 times the median and more."""

_BROKEN_SHARE = 3
"""One first attempt in so many is broken."""


@dataclass(frozen=True)
class Attempt:
    """One candidate, and the thinking that comes before it."""

    think: float
    """Seconds."""
    body: str
    flaw: Flaw | None = None
    """Why the candidate is wrong; `None` for the canonical solution."""


@dataclass(frozen=True)
class Rollout:
    """One problem and the attempts at it; the last one is the canonical solution."""

    problem: Problem
    attempts: tuple[Attempt, ...]

    def without_flaws(self) -> Rollout:
        """The same rollout with its right attempt only."""
        return Rollout(self.problem, tuple(a for a in self.attempts if a.flaw is None))


def make_plan(
    problems: Sequence[Problem], flaws: Sequence[Flaw], *, think: float, seed: int
) -> list[Rollout]:
    """Plan one rollout per problem.

    Args:
        problems: What to solve.
        flaws: Dealt out in turn, so that each occurs as often as the others, give or take one.
        think: Median think time before an attempt, in seconds. 0 means none.
        seed: Decides which problems begin with a broken attempt, and every think time.
    """
    # No security rests on it, and only a seeded generator makes a run repeatable.
    chance = random.Random(seed)  # noqa: S311
    broken = chance.sample(range(len(problems)), len(problems) // _BROKEN_SHARE if flaws else 0)
    flaw_of = {index: flaws[turn % len(flaws)] for turn, index in enumerate(broken)}

    def think_time() -> float:
        # Drawn also for a median of 0, so that `think` alone changes nothing else of the plan.
        return think * math.exp(chance.gauss(0, THINK_SIGMA))

    def attempts(index: int, problem: Problem) -> tuple[Attempt, ...]:
        flaw = flaw_of.get(index)
        first = Attempt(think_time(), flaw.body, flaw) if flaw else None
        right = Attempt(think_time(), problem.canonical_solution)
        return (first, right) if first else (right,)

    return [Rollout(problem, attempts(index, problem)) for index, problem in enumerate(problems)]
