"""What a pool decides, event by event."""

from __future__ import annotations

import itertools

from sandboxd.controller.pool import (
    FIRST_PAUSE,
    IN_FLIGHT,
    Action,
    Claimed,
    Died,
    Failed,
    Made,
    Make,
    Pool,
    Remove,
    Resized,
    Viewed,
    Woken,
)


def pool(size: int) -> Pool:
    numbers = itertools.count(1)
    return Pool("host", size, lambda: f"w{next(numbers)}")


def made(actions: list[Action]) -> list[str]:
    """The names that are to be made, where nothing else is to be done."""
    assert all(isinstance(each, Make) for each in actions)
    return [each.name for each in actions]


def full(size: int) -> Pool:
    """A pool with everything in it, at time 0."""
    new = pool(size)
    waiting = made(new.on(Woken(), 0))
    while waiting:
        waiting += made(new.on(Made(waiting.pop(0)), 0))
    assert new.status.ready == size
    return new


def test_it_is_filled_a_few_at_a_time() -> None:
    new = pool(IN_FLIGHT + 3)
    first = made(new.on(Woken(), 0))
    assert len(first) == IN_FLIGHT
    assert new.on(Woken(), 0) == []
    assert len(made(new.on(Made(first[0]), 0))) == 1


def test_p5_a_claim_is_answered_with_a_refill_at_once() -> None:
    some = full(3)
    assert made(some.on(Claimed("w1"), 0)) == ["w4"]


def test_p2_nothing_waits_for_a_clock() -> None:
    some = full(3)
    for number in range(4, 100):
        assert made(some.on(Claimed(f"w{number - 3}"), 0)) == [f"w{number}"]
        assert some.on(Made(f"w{number}"), 0) == []
    assert some.wake_at is None


def test_p1_creations_in_flight_count_whatever_an_old_view_says() -> None:
    new = pool(8)
    asked = made(new.on(Woken(), 100))
    assert len(asked) == 8
    nothing_seen = Viewed(frozenset(), asked_at=70)
    assert new.on(nothing_seen, 100) == []
    for name in asked:
        assert new.on(Made(name), 101) == []
    assert new.on(nothing_seen, 102) == []
    assert new.status.ready == 8


def test_p6_one_that_died_is_replaced_when_a_newer_view_lacks_it() -> None:
    some = full(2)
    assert made(some.on(Viewed(frozenset({"w2"}), asked_at=1), 2)) == ["w3"]
    assert made(some.on(Died("w2"), 3)) == ["w4"]


def test_what_was_taken_does_not_come_back_with_an_old_view() -> None:
    some = full(2)
    some.on(Claimed("w1"), 10)
    some.on(Made("w3"), 11)
    some.on(Viewed(frozenset({"w1", "w2"}), asked_at=5), 12)
    assert some.status.ready == 2


def test_a_claim_may_be_reported_before_the_end_of_the_making() -> None:
    new = pool(1)
    assert made(new.on(Woken(), 0)) == ["w1"]
    assert made(new.on(Claimed("w1"), 1)) == ["w2"]
    assert new.on(Made("w1"), 2) == []
    assert (new.status.ready, new.status.making) == (0, 1)


def test_those_of_another_control_plane_are_kept_up_to_the_size() -> None:
    new = pool(2)
    actions = new.on(Viewed(frozenset({"x1", "x2", "x3"}), asked_at=0), 0)
    assert len(actions) == 1
    assert isinstance(actions[0], Remove)
    assert (new.status.ready, new.status.making) == (2, 0)


def test_a_failure_is_shown_and_tried_again_one_at_a_time_with_longer_pauses() -> None:
    new = pool(3)
    for name in made(new.on(Woken(), 0)):
        assert new.on(Failed(name, "no such image"), 1) == []
    assert (new.status.state, new.status.error) == ("degraded", "no such image")
    paused = FIRST_PAUSE * 4
    assert new.wake_at == 1 + paused
    assert new.on(Woken(), 1 + paused / 2) == []
    (again,) = made(new.on(Woken(), 1 + paused))
    rest = made(new.on(Made(again), 5))
    assert len(rest) == 2
    assert (new.status.state, new.status.error) == ("filling", "")


def test_another_size_makes_more_or_removes_the_youngest() -> None:
    some = full(2)
    assert made(some.on(Resized(3), 0)) == ["w3"]
    some.on(Made("w3"), 0)
    assert some.on(Resized(1), 1) == [Remove("w3"), Remove("w2")]
    assert some.on(Resized(0), 1) == [Remove("w1")]
    assert some.status.state == "ready"
