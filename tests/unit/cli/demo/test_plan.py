"""The plan of the demo: repeatable, fair to every flaw, and ending with the right solution."""

from __future__ import annotations

import statistics

from sandboxd.cli.demo.flaws import FLAWS, MEMORY_HOG
from sandboxd.cli.demo.plan import Rollout, make_plan
from sandboxd.cli.demo.problems import Problem

PROBLEMS = [
    Problem(f"Test/{index}", "def f():\n", "    return 1\n", "f", "def check(candidate): ...\n")
    for index in range(164)
]


def flaws_of(plan: list[Rollout]) -> list[str]:
    first = (rollout.attempts[0].flaw for rollout in plan)
    return [flaw.name for flaw in first if flaw is not None]


def test_the_same_seed_gives_the_same_plan() -> None:
    one = make_plan(PROBLEMS, FLAWS, think=0.2, seed=5)

    assert one == make_plan(PROBLEMS, FLAWS, think=0.2, seed=5)
    assert one != make_plan(PROBLEMS, FLAWS, think=0.2, seed=6)


def test_a_third_of_the_first_attempts_is_broken_and_every_flaw_has_its_share() -> None:
    flaws = flaws_of(make_plan(PROBLEMS, FLAWS, think=0.2, seed=0))

    assert len(flaws) == len(PROBLEMS) // 3
    counts = [flaws.count(flaw.name) for flaw in FLAWS]
    assert max(counts) - min(counts) <= 1


def test_every_rollout_ends_with_the_canonical_solution() -> None:
    for rollout in make_plan(PROBLEMS, FLAWS, think=0.2, seed=0):
        last = rollout.attempts[-1]
        assert last.flaw is None
        assert last.body == rollout.problem.canonical_solution


def test_without_flaws_only_the_right_attempt_is_left() -> None:
    for rollout in make_plan(PROBLEMS, FLAWS, think=0.2, seed=0):
        assert rollout.without_flaws().attempts == rollout.attempts[-1:]


def test_no_flaws_at_all_means_no_broken_attempts() -> None:
    assert flaws_of(make_plan(PROBLEMS, [], think=0.2, seed=0)) == []


def test_think_times_have_the_median_that_was_asked_for() -> None:
    plan = make_plan(PROBLEMS, FLAWS, think=2.0, seed=0)
    times = [attempt.think for rollout in plan for attempt in rollout.attempts]

    assert 1.6 < statistics.median(times) < 2.4
    assert min(times) > 0


def test_the_think_time_changes_nothing_else() -> None:
    slow = make_plan(PROBLEMS, [MEMORY_HOG], think=4.0, seed=3)
    none = make_plan(PROBLEMS, [MEMORY_HOG], think=0.0, seed=3)

    assert [each.attempts[0].body for each in slow] == [each.attempts[0].body for each in none]
    assert all(attempt.think == 0 for rollout in none for attempt in rollout.attempts)
