"""The way to the agent for threads: `await` blocks inside, so a coroutine never suspends.

One connection per thread, which ends with the thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from sandboxd._native import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    from sandboxd._native import Request
    from sandboxd.client._agent_base import Agent

T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over the blocking transport to its end.

    Raises:
        RuntimeError: If it waits for anything else; a defect of ours.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast("T", stop.value)
    coroutine.close()
    raise RuntimeError("a blocking call was suspended")


class BlockingPending(Generic[T]):
    """A call that was sent from a thread."""

    __slots__ = ("_call", "_connection")

    def __init__(self, connection: Connection, call: int) -> None:
        """Wrap a call."""
        self._connection = connection
        self._call = call

    async def result(self) -> T:
        """See `Pending`."""
        try:
            return cast("T", self._connection.wait(self._call))
        except BaseException:
            # Ctrl-C as well: the exec must not go on without anybody who waits for it.
            self._connection.cancel(self._call)
            raise

    async def shared(self) -> T:
        """See `Pending`."""
        return cast("T", self._connection.wait(self._call))

    def watch(self, callback: Callable[[T], object]) -> None:
        """See `Pending`. A thread learns of the reply when it waits for it."""

    def cancel(self) -> None:
        """See `Pending`."""
        self._connection.cancel(self._call)

    def forget(self) -> None:
        """See `Pending`."""
        self._connection.forget(self._call)


class BlockingMilestone:
    """See `Milestone`. A thread makes one call after the other; those of several have no order."""

    def reach(self) -> None:
        """See `Milestone`."""

    async def reached(self) -> None:
        """Return at once."""


class BlockingStream(Generic[T]):
    """A stream that is read by a thread."""

    __slots__ = ("_call", "_connection")

    def __init__(self, connection: Connection, call: int) -> None:
        """Wrap a call."""
        self._connection = connection
        self._call = call

    def __del__(self) -> None:
        """Stop a stream that nobody reads any more."""
        self.close()

    async def receive(self) -> list[T]:
        """See `Stream`."""
        return cast("list[T]", self._connection.wait_items(self._call))

    async def receive_within(self, seconds: float) -> list[T] | None:
        """See `Stream`."""
        return self._connection.wait_items(self._call, seconds)

    def close(self) -> None:
        """See `Stream`."""
        self._connection.cancel(self._call)


async def wait_for(future: Future[T]) -> T:
    """Wait for another thread."""
    return future.result()


class BlockingTransport:
    """See `Transport`."""

    def __init__(self, agent: Agent) -> None:
        """Name the agent; nothing is sent."""
        self.agent = agent

    def is_at_hand(self) -> bool:
        """Whether a call can be sent: always."""
        return True

    def connection(self) -> Connection:
        """Return the connection of this thread."""
        threads = self.agent.threads
        connection: Connection | None = getattr(threads, "connection", None)
        if connection is None or connection.failed:
            self.agent.check_owner()
            connection = threads.connection = Connection(
                self.agent.path,
                keepalive=self.agent.settings.keepalive,
                greeting=self.agent.greeting(),
            )
        return connection

    async def call(self, request: Request[T]) -> T:
        """See `Transport`."""
        return await self.submit(request).result()

    def submit(self, request: Request[T]) -> BlockingPending[T]:
        """See `Transport`."""
        connection = self.connection()
        return BlockingPending(connection, connection.submit(request))

    def stream(self, request: Request[T]) -> BlockingStream[T]:
        """See `Transport`."""
        connection = self.connection()
        return BlockingStream(connection, connection.submit(request))

    def milestone(self) -> BlockingMilestone:
        """See `Transport`."""
        return BlockingMilestone()

    async def sleep(self, seconds: float) -> None:
        """See `Transport`."""
        time.sleep(seconds)  # noqa: ASYNC251  (this transport blocks)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """See `Transport`. The caller's own thread is one."""
        return function()
