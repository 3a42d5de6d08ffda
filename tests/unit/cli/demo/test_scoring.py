"""What counts as right, what as a complaint."""

from __future__ import annotations

import pytest

from sandboxd import Cause, Startup
from sandboxd.cli.demo.flaws import BUG, ENDLESS_LOOP, FORK_BOMB, Flaw
from sandboxd.cli.demo.plan import Attempt, Rollout
from sandboxd.cli.demo.problems import Problem
from sandboxd.cli.demo.rollouts import Played, Tried
from sandboxd.cli.demo.scoring import Pass, complaints, scored_right

PROBLEM = Problem("Test/1", "def f():\n", "    return 1\n", "f", "def check(candidate): ...\n")


def tried(
    cause: Cause = Cause.EXITED, exit_code: int | None = 0, *, flaw: Flaw | None = None
) -> Tried:
    return Tried(Attempt(0.0, "", flaw), cause, exit_code, seconds=0.01)


def played(*attempts: Tried, error: str | None = None) -> Played:
    rollout = Rollout(PROBLEM, tuple(each.attempt for each in attempts))
    startup = Startup(total=0.002, hidden=0.0015, waited=0.0005)
    return Played(rollout, attempts, startup, error)


def one_pass(*rollouts: Played) -> Pass:
    return Pass(rollouts, wall_seconds=1.0)


@pytest.mark.parametrize(
    ("attempt", "right"),
    [
        (tried(), True),
        (tried(exit_code=1), False),
        (tried(Cause.TIMEOUT, None), False),
        (tried(exit_code=1, flaw=BUG), True),
        (tried(exit_code=0, flaw=BUG), False),
        (tried(Cause.TIMEOUT, None, flaw=ENDLESS_LOOP), True),
        (tried(Cause.SIGNALED, None, flaw=ENDLESS_LOOP), False),
        # A fork bomb may exit by itself: the limit is what it is scored by.
        (tried(Cause.PIDS_LIMIT, 1, flaw=FORK_BOMB), True),
        (tried(Cause.EXITED, 1, flaw=FORK_BOMB), False),
    ],
)
def test_an_attempt_is_scored_by_what_is_wrong_with_it(attempt: Tried, *, right: bool) -> None:
    assert scored_right(attempt) is right


def test_nothing_is_complained_about_when_everything_holds() -> None:
    good = one_pass(played(tried(exit_code=1, flaw=BUG), tried()), played(tried()))

    assert good.solved == 2
    assert complaints([good], {"processes": 0, "mounts": 0}) == []


def test_a_wrong_cause_is_a_complaint_even_if_the_problem_is_solved() -> None:
    wrong = one_pass(played(tried(Cause.EXITED, 1, flaw=ENDLESS_LOOP), tried()))

    assert wrong.solved == 1
    assert len(complaints([wrong], {})) == 1


def test_a_failed_canonical_solution_is_one_complaint() -> None:
    failed = one_pass(played(tried(exit_code=1)))

    assert failed.solved == 0
    assert len(complaints([failed], {})) == 1


def test_a_failure_of_the_infrastructure_is_a_complaint_and_no_score() -> None:
    lost = one_pass(played(error="SandboxLostError: gone"))

    assert lost.solved == 0
    assert lost.causes() == {}
    assert complaints([lost], {}) == ["Test/1: SandboxLostError: gone"]


def test_what_is_left_behind_is_a_complaint() -> None:
    assert complaints([one_pass(played(tried()))], {"mounts": 2}) == ["left behind: 2 mounts"]


def test_percentiles_are_of_the_canonical_programs_alone() -> None:
    slow = Tried(Attempt(0.0, "", ENDLESS_LOOP), Cause.TIMEOUT, None, seconds=5.0)

    assert one_pass(played(slow, tried())).exec_ms(99) == pytest.approx(10.0)


def test_startup_adds_up_over_sandboxes() -> None:
    both = one_pass(played(tried()), played(tried()))

    assert both.hidden_seconds == pytest.approx(0.003)
    assert both.waited_seconds == pytest.approx(0.001)
    assert both.hidden_ratio == pytest.approx(0.75)
