"""What a handle needs from its way to the agent, so that everything above is written once.

The two ways differ in who waits: `_loop.py` suspends the coroutine, `_blocking.py` blocks the
thread inside `await`, so that a coroutine over it ends at its first step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sandboxd._native import Request
    from sandboxd.client._agent_base import Agent

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """A call that was sent."""

    async def result(self) -> T_co:
        """Wait for the reply. Cancelling that cancels the call."""

    async def shared(self) -> T_co:
        """Wait for the reply beside others. Cancelling that cancels nothing."""

    def watch(self, callback: Callable[[T_co], object]) -> None:
        """Have `callback` get the reply as soon as it is here, if this transport can."""

    def cancel(self) -> None:
        """Cancel the call: an exec is ended, anything else happens unheard."""

    def forget(self) -> None:
        """Let the call happen unheard."""


class Stream(Protocol[T]):
    """A call whose answer is a stream."""

    async def receive(self) -> list[T]:
        """Wait for the next items; an empty list is the end."""

    async def receive_within(self, seconds: float) -> list[T] | None:
        """Wait for the next items as `receive`, but not for longer; `None` when that is over."""

    def close(self) -> None:
        """Stop the stream."""


class Milestone(Protocol):
    """Something that is reached once, and can be waited for."""

    def reach(self) -> None:
        """Let those who wait go on, in the order in which they came."""

    async def reached(self) -> None:
        """Wait for it."""


class Transport(Protocol):
    """The way to one agent. Errors are the extension's `NativeError`."""

    @property
    def agent(self) -> Agent:
        """The agent at the other end."""

    def is_at_hand(self) -> bool:
        """Whether a call can be sent from here and now."""

    def connection(self) -> Hashable:
        """Return what names the connection that a call made now would use."""

    async def call(self, request: Request[T]) -> T:
        """Send a call and wait for its reply. Cancelling that cancels the call."""

    def submit(self, request: Request[T]) -> Pending[T]:
        """Send a call."""

    def stream(self, request: Request[T]) -> Stream[T]:
        """Send a call whose answer is a stream."""

    def milestone(self) -> Milestone:
        """Make something to wait for beside other calls of this transport."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Call what blocks, such as a file of this machine, where it holds nobody up."""
