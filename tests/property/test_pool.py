"""Laws of a pool, whatever happens in whatever order, with views of the past.

The model is what a pool cannot see: agents that make, lose and hand out sandboxes, and answers that
are on their way.
"""

from __future__ import annotations

import itertools

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from sandboxd.controller.pool import (
    IN_FLIGHT,
    LONGEST_PAUSE,
    Action,
    Claimed,
    Died,
    Event,
    Failed,
    Made,
    Make,
    Pool,
    Resized,
    Viewed,
    Woken,
)

LARGEST = 12


class PoolMachine(RuleBasedStateMachine):
    """A pool over agents that do what they like."""

    views = Bundle("views")

    def __init__(self) -> None:
        super().__init__()
        numbers = itertools.count()
        self.now = 0.0
        self.size = self.largest = 0
        self.pool = Pool("host", 0, lambda: f"w{next(numbers)}")
        self.ordered: set[str] = set()
        """Orders that no agent has carried out yet."""
        self.waiting: list[str] = []
        """What really waits for a claim, oldest first."""
        self.answers: list[Event] = []
        """What the pool has not been told yet."""
        self.claimed: set[str] = set()

    @initialize(size=st.integers(0, LARGEST))
    def begin(self, size: int) -> None:
        self.tell(Resized(size), size)

    def tell(self, event: Event, size: int | None = None) -> None:
        if size is not None:
            self.size, self.largest = size, max(self.largest, size)
        self.act(self.pool.on(event, self.now))

    def act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Make):
                assert action.name not in self.ordered | self.claimed
                self.ordered.add(action.name)
            elif action.name in self.waiting:
                self.waiting.remove(action.name)

    @rule(data=st.data(), works=st.booleans(), told=st.booleans())
    def an_agent_makes_one_or_fails(self, data: st.DataObject, works: bool, told: bool) -> None:  # noqa: FBT001  (hypothesis names them)
        if not self.ordered:
            return
        name = data.draw(st.sampled_from(sorted(self.ordered)))
        self.ordered.remove(name)
        if works:
            self.waiting.append(name)
        answer: Event = Made(name) if works else Failed(name, "no")
        if told:
            self.tell(answer)
        else:
            self.answers.append(answer)

    @rule(told=st.booleans())
    def a_claim_takes_the_oldest(self, told: bool) -> None:  # noqa: FBT001
        if not self.waiting:
            return
        name = self.waiting.pop(0)
        assert name not in self.claimed, "claimed twice"
        self.claimed.add(name)
        if told:
            self.tell(Claimed(name))
        else:
            self.answers.append(Claimed(name))

    @rule(data=st.data(), told=st.booleans())
    def one_dies(self, data: st.DataObject, told: bool) -> None:  # noqa: FBT001
        if not self.waiting:
            return
        name = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(name)
        if told:
            self.tell(Died(name))

    @rule(data=st.data())
    def a_late_answer_arrives(self, data: st.DataObject) -> None:
        if self.answers:
            index = data.draw(st.integers(0, len(self.answers) - 1))
            self.tell(self.answers.pop(index))

    @rule(target=views)
    def a_view_is_taken(self) -> Viewed:
        self.now += 0.001
        view = Viewed(frozenset(self.waiting), self.now)
        self.now += 0.001
        return view

    @rule(view=views)
    def a_view_arrives(self, view: Viewed) -> None:
        """Any view so far, however old; more than once."""
        self.tell(view)

    @rule(size=st.integers(0, LARGEST))
    def it_is_resized(self, size: int) -> None:
        self.tell(Resized(size), size)

    @rule(seconds=st.floats(0.01, 60))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        wake_at = self.pool.wake_at
        if wake_at is not None and wake_at <= self.now:
            self.tell(Woken())

    @invariant()
    def it_never_believes_in_more_than_its_size(self) -> None:
        status = self.pool.status
        assert status.ready <= self.size
        # Orders under way cannot be taken back when the size falls.
        assert status.ready + status.making <= max(self.size, status.making)

    @invariant()
    def there_are_never_more_than_it_may_have(self) -> None:
        assert len(self.waiting) + len(self.ordered) <= self.largest

    @invariant()
    def few_are_made_at_once(self) -> None:
        assert len(self.ordered) <= IN_FLIGHT

    def teardown(self) -> None:
        """When everything has been told and nothing more happens, it has what it should."""
        while self.answers:
            self.tell(self.answers.pop(0))
        for _ in range(4 * LARGEST):
            self.now += LONGEST_PAUSE
            self.tell(Viewed(frozenset(self.waiting), self.now))
            for name in sorted(self.ordered):
                self.ordered.remove(name)
                self.waiting.append(name)
                self.tell(Made(name))
        assert len(self.waiting) == self.size == self.pool.status.ready
        assert not self.ordered
        assert self.pool.status.state == "ready"


TestPool = PoolMachine.TestCase
