"""The way to the agent for asyncio: the socket is on the running loop, there is no thread.

One connection per event loop. The loop's callbacks go straight into the extension, which completes
the futures; Python code runs only to write when the socket is full, and to keep alive.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sandboxd._native import Connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from sandboxd._native import Request
    from sandboxd.client._agent_base import Agent

T = TypeVar("T")


class LoopConnection:
    """A connection on one event loop, which it does not keep alive."""

    __slots__ = ("__weakref__", "_keepalive", "loop", "native", "ticking")

    def __init__(self, agent: Agent, loop: asyncio.AbstractEventLoop) -> None:
        """Connect, and have the loop watch the socket."""
        settings = agent.settings
        self.loop = weakref.ref(loop)
        self.native = Connection(
            agent.path,
            keepalive=settings.keepalive,
            greeting=agent.greeting(),
            on_full=_watch_for_room,
            on_failed=_stop_watching,
        )
        self._keepalive = settings.keepalive
        self.ticking = False
        """Whether a timer of the loop keeps it alive."""
        loop.add_reader(self.native.fileno(), self.native.on_readable)

    def submit(self, loop: asyncio.AbstractEventLoop, request: Request[Any], future: Any) -> int:
        """Send a call."""
        call = self.native.submit(request, future)
        if not self.ticking:
            self.schedule(loop)
        return call

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep alive while calls wait; a quiet connection has no timer."""
        self.native.on_tick()
        self.schedule(loop)

    def schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep alive from now on, if there is anything to wait for."""
        delay = self.native.tick_in
        self.ticking = delay is not None
        if delay is not None:
            # The greeting may take longer, and what follows it is due by keepalives.
            loop.call_later(min(delay, self._keepalive), self._tick, loop)


def _watch_for_room(connection: Connection) -> None:
    loop = asyncio._get_running_loop()  # noqa: SLF001  (documented; the public one raises)
    # A stream may be dropped by the collector in another thread; the loop's next call writes then.
    if loop is not None:
        loop.add_writer(connection.fileno(), _write, connection)


def _write(connection: Connection) -> None:
    if connection.on_writable():
        asyncio.get_running_loop().remove_writer(connection.fileno())


def _stop_watching(connection: Connection) -> None:
    loop = asyncio._get_running_loop()  # noqa: SLF001  (documented; the public one raises)
    # Without one, a stream was dropped after its loop's end, which watches nothing any more.
    if loop is not None:
        loop.remove_reader(connection.fileno())
        loop.remove_writer(connection.fileno())


class LoopPending(Generic[T]):
    """A call that was sent from an event loop."""

    __slots__ = ("_call", "_connection", "_future")

    def __init__(self, connection: Connection, call: int, future: asyncio.Future[T]) -> None:
        """Wrap the future of a call."""
        self._connection = connection
        self._call = call
        self._future = future

    async def result(self) -> T:
        """See `Pending`."""
        try:
            return await self._future
        except BaseException:
            self._connection.cancel(self._call)
            raise

    async def shared(self) -> T:
        """See `Pending`."""
        return await asyncio.shield(self._future)

    def watch(self, callback: Callable[[T], object]) -> None:
        """See `Pending`."""

        def done(future: asyncio.Future[T]) -> None:
            # Looking at the exception also keeps asyncio from reporting it: the callers do.
            if not future.cancelled() and future.exception() is None:
                callback(future.result())

        self._future.add_done_callback(done)

    def cancel(self) -> None:
        """See `Pending`."""
        self._future.cancel()
        self._connection.cancel(self._call)

    def forget(self) -> None:
        """See `Pending`."""
        self._connection.forget(self._call)


class LoopMilestone:
    """See `Milestone`."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        """Begin unreached."""
        self._event = asyncio.Event()

    def reach(self) -> None:
        """See `Milestone`."""
        self._event.set()

    async def reached(self) -> None:
        """See `Milestone`."""
        await self._event.wait()


class LoopStream(Generic[T]):
    """A stream that is read on an event loop."""

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
        future: asyncio.Future[list[T]] = asyncio.get_running_loop().create_future()
        items = self._connection.receive(self._call, future)
        return await future if items is None else items

    async def receive_within(self, seconds: float) -> list[T] | None:
        """See `Stream`."""
        future: asyncio.Future[list[T]] = asyncio.get_running_loop().create_future()
        items = self._connection.receive(self._call, future)
        if items is not None:
            return items
        try:
            await asyncio.wait({future}, timeout=seconds)
            return future.result() if future.done() else None
        finally:
            # What arrives later is for the next one who asks.
            future.cancel()

    def close(self) -> None:
        """See `Stream`."""
        self._connection.cancel(self._call)


def _no_connection() -> None:
    """Stand in for the reference to a connection that was not made yet."""


async def wait_for(future: Future[T]) -> T:
    """Wait for another thread. Cancelling that cancels nothing."""
    return await asyncio.shield(asyncio.wrap_future(future))


class LoopTransport:
    """See `Transport`."""

    def __init__(self, agent: Agent) -> None:
        """Name the agent; nothing is sent."""
        self.agent = agent
        self._last: Callable[[], LoopConnection | None] = _no_connection

    def is_at_hand(self) -> bool:
        """Whether a loop runs in this thread."""
        return asyncio._get_running_loop() is not None  # noqa: SLF001  (documented; the public one raises)

    def connection(self) -> Connection:
        """Return the connection of the running loop."""
        return self._connected(asyncio.get_running_loop()).native

    async def call(self, request: Request[T]) -> T:
        """See `Transport`."""
        # The whole of `submit` in one frame: every command passes here, and its code is cold then.
        loop = asyncio.get_running_loop()
        connection = self._last()
        if connection is None or connection.loop() is not loop or connection.native.failed:
            connection = self._connected(loop)
            self._last = weakref.ref(connection)
        future: asyncio.Future[T] = loop.create_future()
        call = connection.native.submit(request, future)
        if not connection.ticking:
            connection.schedule(loop)
        try:
            return await future
        except BaseException:
            # Cancelled, as a rule. A call that has failed is known to nobody any more.
            connection.native.cancel(call)
            raise

    def submit(self, request: Request[T]) -> LoopPending[T]:
        """See `Transport`."""
        loop = asyncio.get_running_loop()
        connection = self._connected(loop)
        future: asyncio.Future[T] = loop.create_future()
        return LoopPending(connection.native, connection.submit(loop, request, future), future)

    def stream(self, request: Request[T]) -> LoopStream[T]:
        """See `Transport`."""
        loop = asyncio.get_running_loop()
        connection = self._connected(loop)
        return LoopStream(connection.native, connection.submit(loop, request, None))

    def milestone(self) -> LoopMilestone:
        """See `Transport`."""
        return LoopMilestone()

    async def sleep(self, seconds: float) -> None:
        """See `Transport`."""
        await asyncio.sleep(seconds)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """See `Transport`."""
        return await asyncio.to_thread(function)

    def _connected(self, loop: asyncio.AbstractEventLoop) -> LoopConnection:
        loops = self.agent.loops
        connection = loops.get(loop)
        if connection is None or connection.native.failed:
            self.agent.check_owner()
            # A loop that was closed may not be collected for long; its socket is of no use.
            for other, old in list(loops.items()):
                if other.is_closed():
                    del loops[other]
                    old.native.close()
            connection = loops[loop] = LoopConnection(self.agent, loop)
        return connection
