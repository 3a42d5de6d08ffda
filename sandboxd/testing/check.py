"""What a check is, and the words in which one fails.

A check is an async function of a `Setup` that returns when the promise holds and raises
`CheckFailedError` when it does not. It makes its own sandboxes and closes them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sandboxd.testing.setup import Setup

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
Body = Callable[["Setup"], Coroutine[Any, Any, None]]


class CheckFailedError(AssertionError):
    """A promise does not hold; the message says what was seen and what was promised."""


@dataclass(frozen=True)
class Check:
    """One promise of a sandbox and the function that tries it."""

    name: str
    """The promise as a sentence, in snake case, with its case id in front."""
    run: Body
    """Tries it; makes and closes its own sandboxes."""
    needs: tuple[str, ...]
    """Capabilities that the agent must report; without one the check cannot be tried."""
    seconds: float
    """A run that takes longer hangs. Generous: not a measure of speed."""


class Registry:
    """The checks of one topic, in the order in which they are written."""

    def __init__(self) -> None:
        """Start without any."""
        self.checks: list[Check] = []

    def check(self, *needs: str, seconds: float = 60.0) -> Callable[[Body], Body]:
        """Register the decorated function under its own name."""

        def register(body: Body) -> Body:
            self.checks.append(Check(body.__name__, body, needs, seconds))
            return body

        return register


def expect(holds: bool, message: str) -> None:  # noqa: FBT001  (reads like an assertion)
    """Fail with `message` unless `holds`."""
    if not holds:
        raise CheckFailedError(message)


def expect_equal(what: str, seen: object, promised: object) -> None:
    """Fail unless both are equal; long values are shortened in the message."""
    if seen != promised:
        raise CheckFailedError(f"{what} is {_short(seen)}, promised is {_short(promised)}")


async def expect_raises(error: type[E], call: Awaitable[object], *, names: str = "") -> E:
    """Await `call` and return the `error` that it must raise, whose message has `names` in it."""
    try:
        seen = await call
    except error as raised:
        expect(names in str(raised), f"the message of {raised!r} does not name {names!r}")
        return raised
    raise CheckFailedError(f"{error.__name__} is promised, the call returned {_short(seen)}")


async def expect_soon(what: str, holds: Callable[[], bool], *, within: float) -> None:
    """Fail unless `holds` becomes true within so many seconds."""
    deadline = time.monotonic() + within
    while not holds():
        if time.monotonic() > deadline:
            raise CheckFailedError(f"after {within} s it still does not hold that {what}")
        await asyncio.sleep(0.01)


async def at_once(total: int, concurrency: int, call: Callable[[int], Awaitable[T]]) -> list[T]:
    """Results of `call(0)` to `call(total - 1)`, in order, so many at a time."""
    numbers = iter(range(total))
    results: dict[int, T] = {}

    async def work() -> None:
        for number in numbers:
            results[number] = await call(number)

    await asyncio.gather(*(work() for _ in range(concurrency)))
    return [results[number] for number in range(total)]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} … {text[-80:]} ({len(text)} characters)"  # noqa: PLR2004  (one screen line or four)
