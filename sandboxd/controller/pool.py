"""A pool of warm sandboxes of one template: how many to make, when, and which to remove.

Pure: events and a time come in, actions go out; `refill.py` acts. Invariants: what is ready and
what is being made are together never more than the size; a view of the agents never makes the pool
forget what it learnt after that view was taken; a claim is answered with a refill by the very event
that reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

IN_FLIGHT = 8
"""Sandboxes that one pool has made at the same time: claims are made on the same machine."""

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds after failures, doubled with each: a template that cannot start keeps no machine busy."""


@dataclass(frozen=True, slots=True)
class Made:
    """One that was asked for is ready."""

    name: str


@dataclass(frozen=True, slots=True)
class Failed:
    """One that was asked for could not be made."""

    name: str
    error: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim took one."""

    name: str


@dataclass(frozen=True, slots=True)
class Died:
    """One ended while it waited."""

    name: str


@dataclass(frozen=True, slots=True)
class Viewed:
    """What waits for a claim, as all agents said when they were asked."""

    names: frozenset[str]
    asked_at: float


@dataclass(frozen=True, slots=True)
class Resized:
    """The pool is to have another size."""

    size: int


@dataclass(frozen=True, slots=True)
class Woken:
    """Nothing has happened, but `wake_at` has come."""


Event = Made | Failed | Claimed | Died | Viewed | Resized | Woken


@dataclass(frozen=True, slots=True)
class Make:
    """Make one. `Made` or `Failed` has to follow, however late."""

    name: str


@dataclass(frozen=True, slots=True)
class Remove:
    """End one that nobody has claimed. It does not matter if a claim was faster."""

    name: str


Action = Make | Remove

PoolState = Literal["ready", "filling", "degraded"]


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A pool as people see it."""

    template: str
    size: int
    """How many should wait for a claim."""
    ready: int
    making: int
    state: PoolState
    """`degraded`: the last one could not be made."""
    error: str
    """Why the last one could not be made; empty otherwise."""


class Pool:
    """What is known of one pool."""

    def __init__(self, template: str, size: int, fresh: Callable[[], str]) -> None:
        """Begin with nothing known and nothing made; the first event starts the work.

        Args:
            template: What its sandboxes are made from.
            size: How many should wait for a claim.
            fresh: Gives a name that was never used.
        """
        self.template = template
        self._size = size
        self._fresh = fresh
        self._ready: dict[str, float] = {}
        """Since when each is known to be ready, oldest first."""
        self._making: set[str] = set()
        self._gone: dict[str, float] = {}
        """When each was taken, died or was removed: older views may still show it."""
        self._failures = 0
        self._error = ""
        self._paused_until = float("-inf")

    @property
    def wake_at(self) -> float | None:
        """When `Woken` is due; `None` if only an event can change anything."""
        lacks = len(self._ready) + self._pending < self._size
        return self._paused_until if lacks and self._failures else None

    @property
    def status(self) -> PoolStatus:
        """How the pool is."""
        ready = len(self._ready)
        state: PoolState = "ready" if ready >= self._size else "filling"
        if self._error:
            state = "degraded"
        return PoolStatus(self.template, self._size, ready, self._pending, state, self._error)

    @property
    def _pending(self) -> int:
        """How many are being made that nobody has taken before their answer came."""
        return sum(name not in self._gone for name in self._making)

    def on(self, event: Event, now: float) -> list[Action]:
        """Take note of an event, and return what to do about it."""
        match event:
            case Made(name):
                self._on_made(name, now)
            case Failed(name, error):
                self._on_failed(name, error, now)
            case Claimed(name) | Died(name):
                self._forget(name, now)
            case Viewed(names, asked_at):
                self._on_viewed(names, asked_at, now)
            case Resized(size):
                self._size = size
            case Woken():
                pass
        return [*self._surplus(now), *self._deficit(now)]

    def _on_made(self, name: str, now: float) -> None:
        self._making.discard(name)
        self._failures, self._error = 0, ""
        # A claim may have taken it before its answer came back to us.
        if name not in self._gone:
            self._ready.setdefault(name, now)

    def _on_failed(self, name: str, error: str, now: float) -> None:
        if name not in self._making:
            return
        self._making.discard(name)
        if name in self._gone:
            return
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 16))
        self._failures += 1
        self._error = error
        self._paused_until = now + pause

    def _forget(self, name: str, now: float) -> None:
        self._ready.pop(name, None)
        self._gone[name] = now

    def _on_viewed(self, names: frozenset[str], asked_at: float, now: float) -> None:
        for name, since in list(self._ready.items()):
            if name not in names and since < asked_at:
                self._forget(name, now)
        for name in names:
            # Made by another replica, or before we were started. What we wait for ourselves counts
            # already; its own answer says when it is ready.
            if name not in self._gone and name not in self._making:
                self._ready.setdefault(name, now)
        # Names are used once: a view that is asked for later cannot show these any more.
        for name, gone_at in list(self._gone.items()):
            if gone_at < asked_at and name not in names and name not in self._making:
                del self._gone[name]

    def _surplus(self, now: float) -> list[Action]:
        count = max(0, len(self._ready) + self._pending - self._size)
        # The youngest: claims take the oldest.
        names = list(self._ready)[::-1][:count]
        for name in names:
            self._forget(name, now)
        return [Remove(name) for name in names]

    def _deficit(self, now: float) -> list[Action]:
        if now < self._paused_until:
            return []
        lacking = self._size - len(self._ready) - self._pending
        # After a failure one is tried; when that one stands, the rest follows.
        at_once = 1 if self._failures else IN_FLIGHT
        count = max(0, min(lacking, at_once - len(self._making)))
        made = [Make(self._fresh()) for _ in range(count)]
        self._making.update(each.name for each in made)
        return list(made)
