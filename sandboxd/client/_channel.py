"""Calls with repair: a broken connection is made again, and only what is safe is sent again.

Safe is what provably did not reach the agent, and what carries an id or an offset of ours, so that
a second arrival finds the first. Everything else ends in an error that says what is not known.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from sandboxd._native import NativeError
from sandboxd.exceptions import (
    AgentUnreachableError,
    ConnectionLostError,
    SandboxLostError,
    from_native,
)

if TYPE_CHECKING:
    from sandboxd._native import Request
    from sandboxd.client._transport import Transport
    from sandboxd.exceptions import SandboxError

T = TypeVar("T")

_DEATH_SECONDS = 0.25
"""How long a broken connection may be the first sign of the agent's death: the kernel closes the
sockets of a process before its parent can learn of its end."""

_LIVED_SECONDS = 0.05
"""A connection that breaks after so long has worked, and its agent with it: what a command has to
say may take longer than a bad network holds. One that breaks sooner, each time, never will."""

_FLAPPING_SECONDS = 60.0
"""How long connections may break, none of them older than a second, without any answer."""

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.25


class Channel:
    """The calls of one holder to one agent."""

    def __init__(self, transport: Transport) -> None:
        """Wrap the way to the agent; nothing is sent."""
        self.transport = transport

    async def call(self, request: Request[T]) -> T:
        """Send a call and wait for its reply."""
        try:
            return await self.transport.call(request)
        except NativeError as error:
            return await self.repaired(request, from_native(error))

    async def call_once(self, request: Request[T]) -> T:
        """Send a call and wait for its reply, without repair."""
        try:
            return await self.transport.call(request)
        except NativeError as error:
            raise from_native(error) from None

    async def repaired(self, request: Request[T], error: SandboxError) -> T:
        """Send a call again until its answer is known, if that is safe after `error`.

        Raises:
            SandboxError: `error`, or what came of the repair.
        """
        repair = Repair(self, repeatable=request.repeatable)
        while True:
            await repair.after(error)
            try:
                return await self.transport.call(request)
            except NativeError as again:
                error = from_native(again)


class Repair:
    """The attempts to repair one call."""

    def __init__(self, channel: Channel, *, repeatable: bool) -> None:
        """Begin at the first failure."""
        self._channel = channel
        self._repeatable = repeatable
        self._pause = 0.0
        self._lost: ConnectionLostError | None = None
        self.succeeded()

    def succeeded(self) -> None:
        """Begin anew: the connection works again."""
        self._since = self._flapping_since = self._tried_at = time.monotonic()
        self._pause = 0.0

    async def after(self, error: SandboxError) -> None:
        """Wait until it makes sense to try again.

        Raises:
            SandboxError: If it never does.
        """
        if not isinstance(error, (AgentUnreachableError, ConnectionLostError)):
            # `from None`: the error that is repaired says nothing about this one.
            raise error from None
        if isinstance(error, ConnectionLostError) and error.may_have_run:
            self._lost = error
        agent = self._channel.transport.agent
        if agent.is_dead():
            raise self._died(error) from None
        if isinstance(error, ConnectionLostError) and error.reason == "silent":
            agent.is_suspect = True
        # A connection was tried after the silence: who is silent twice is waited for no more.
        silent = isinstance(error, AgentUnreachableError) and error.reason == "silent"
        hopeless = silent or (self._lost is not None and not self._repeatable)
        if hopeless or self._is_over(error):
            if not silent and await self._dies():
                raise self._died(error) from None
            if self._lost is None and isinstance(error, AgentUnreachableError):
                raise agent.unreachable(error) from None
            raise self._lost or error from None
        await self._channel.transport.sleep(self._pause)
        self._pause = min(max(_FIRST_PAUSE, 2 * self._pause), _LONGEST_PAUSE)
        self._tried_at = time.monotonic()

    def _is_over(self, error: SandboxError) -> bool:
        """Whether connections have been tried for long enough."""
        now = time.monotonic()
        lived = now - self._tried_at if isinstance(error, ConnectionLostError) else 0.0
        if lived >= 1.0:
            self._flapping_since = now
        if lived >= _LIVED_SECONDS:
            self._since, self._pause = now, 0.0
        return (
            now >= self._since + self._channel.transport.agent.repair_time()
            or now >= self._flapping_since + _FLAPPING_SECONDS
        )

    async def _dies(self) -> bool:
        """Whether the connection broke because the agent is dying."""
        transport = self._channel.transport
        looks = round(_DEATH_SECONDS / _FIRST_PAUSE) if transport.agent.is_child else 0
        for _ in range(looks):
            if transport.agent.is_dead():
                return True
            await transport.sleep(_FIRST_PAUSE)
        return False

    def _died(self, error: SandboxError) -> SandboxError:
        agent = self._channel.transport.agent
        never_seen = self._lost is None and not agent.has_answered
        if never_seen and isinstance(error, AgentUnreachableError):
            return agent.unreachable(error)
        return SandboxLostError(
            "the agent died, and its sandboxes with it",
            may_have_run=self._lost is not None,
            reason="agent_died",
        )
