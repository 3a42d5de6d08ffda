"""Claims under way: one for each id, however often it is asked for, and cancelled by its release.

The agent's table is what makes a claim atomic. Here is only what a single table cannot know: a
release that comes before the claim it is for, and how many may be under way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandboxd.exceptions import (
    AgentUnreachableError,
    InvalidArgumentError,
    ResourceExhaustedError,
    SandboxClosedError,
    SandboxError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandboxd._agents import AgentClient, Claim, Record
    from sandboxd.controller.registry import Registry

LOG = logging.getLogger("sandboxd.controller")

AT_ONCE = 256
"""Claims that agents work on at the same time; more wait in the order of their arrival."""

WAITING = 8_192
"""Claims that may wait; more are refused."""

_REMEMBERED = 10_000
_REMEMBERED_FOR = 600.0
"""Releases, and the seconds for which a claim of the same id that comes late is refused."""


@dataclass(slots=True)
class _Flight:
    """A claim under way."""

    claim: Claim
    landed: asyncio.Future[tuple[Record, AgentClient]]
    """What became of it."""
    agent: AgentClient | None = None
    """Where it was sent; `None` before that."""
    canceled: bool = False


class Claims:
    """The claims of one control plane."""

    def __init__(
        self, registry: Registry, on_claimed: Callable[[Record], None], *, waiting: int = WAITING
    ) -> None:
        """Begin with none.

        Args:
            registry: Where sandboxes are made.
            on_claimed: Told of every new sandbox, before its caller.
            waiting: Claims that may wait for their turn.
        """
        self._registry = registry
        self._on_claimed = on_claimed
        self._flights: dict[str, _Flight] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._most = AT_ONCE + waiting
        self._canceled: OrderedDict[str, float] = OrderedDict()

    @property
    def under_way(self) -> int:
        """How many are being worked on, or wait."""
        return len(self._flights)

    async def claim(self, claim: Claim) -> tuple[Record, AgentClient]:
        """Claim a sandbox, and return when it is ready. Cancelling the call cancels nothing.

        Raises:
            InvalidArgumentError: If the id is taken by another claim.
            ResourceExhaustedError: If too many claims wait, or the agents are full.
            SandboxClosedError: If it was released meanwhile, or before.
            SandboxError: What the agent says.
        """
        flight = self._flights.get(claim.sandbox_id)
        if flight is None:
            flight = self._begin(claim)
        elif flight.claim != claim:
            raise InvalidArgumentError(
                f"sandbox_id {claim.sandbox_id!r} is taken by another claim: choose another"
            )
        return await asyncio.shield(flight.landed)

    async def release(self, sandbox_id: str) -> bool:
        """End a sandbox in whatever state it is, and return whether there was one.

        Raises:
            AgentError: If an agent that may have it does not answer.
        """
        # Before anything is waited for: its claim may arrive meanwhile.
        self._remember(sandbox_id)
        flight = self._flights.get(sandbox_id)
        if flight is None:
            return await self._registry.release(sandbox_id)
        flight.canceled = True
        LOG.info("sandbox=%s claim canceled", sandbox_id)
        if flight.agent is not None:
            # Ends one that is being made at once; should this overtake the claim, the claim's own
            # end releases again.
            await flight.agent.release(sandbox_id)
        return True

    def _begin(self, claim: Claim) -> _Flight:
        self._prune()
        if claim.sandbox_id in self._canceled:
            raise _closed(claim.sandbox_id)
        if len(self._flights) >= self._most:
            raise ResourceExhaustedError(
                f"{len(self._flights)} claims are under way, as many as may: try again in a second",
                reason="queue_full",
            )
        loop = asyncio.get_running_loop()
        flight = self._flights[claim.sandbox_id] = _Flight(claim, loop.create_future())
        task = loop.create_task(self._fly(flight))
        task.add_done_callback(lambda task: self._land(flight, task))
        return flight

    def _land(self, flight: _Flight, task: asyncio.Task[tuple[Record, AgentClient]]) -> None:
        del self._flights[flight.claim.sandbox_id]
        if task.cancelled():
            flight.landed.cancel()
        elif (error := task.exception()) is not None:
            flight.landed.set_exception(error)
            # Looked at, so that nobody complains when every caller has gone.
            flight.landed.exception()
        else:
            flight.landed.set_result(task.result())

    async def _fly(self, flight: _Flight) -> tuple[Record, AgentClient]:
        claim = flight.claim
        arrived = time.monotonic()
        async with self._turns:
            if flight.canceled:
                raise _closed(claim.sandbox_id)
            is_new = not self._registry.knows(claim.sandbox_id)
            try:
                record, agent = await self._send(flight)
            except SandboxError as error:
                LOG.info("sandbox=%s claim failed code=%s: %s", claim.sandbox_id, error.code, error)
                if flight.canceled:
                    raise _closed(claim.sandbox_id) from None
                raise
            # Told before anything else: what a claim took has to be made again.
            if is_new:
                self._on_claimed(record)
            if flight.canceled:
                await agent.release(claim.sandbox_id)
                raise _closed(claim.sandbox_id)
        self._registry.note(claim.sandbox_id, agent)
        LOG.info(
            "sandbox=%s template=%s launch=%s%s took=%.1fms",
            claim.sandbox_id,
            record.template,
            record.launch,
            f" cold_because={record.cold_because}" if record.cold_because else "",
            1_000 * (time.monotonic() - arrived),
        )
        return record, agent

    async def _send(self, flight: _Flight) -> tuple[Record, AgentClient]:
        agent = flight.agent = self._registry.place()
        try:
            return await agent.claim(flight.claim), agent
        except AgentUnreachableError:
            # Nothing was sent, so it is safe to have an agent started and to go there.
            await self._registry.find_agents()
        agent = flight.agent = self._registry.place()
        return await agent.claim(flight.claim), agent

    def _remember(self, sandbox_id: str) -> None:
        self._canceled[sandbox_id] = time.monotonic()
        self._canceled.move_to_end(sandbox_id)
        while len(self._canceled) > _REMEMBERED:
            self._canceled.popitem(last=False)

    def _prune(self) -> None:
        oldest = time.monotonic() - _REMEMBERED_FOR
        while self._canceled and next(iter(self._canceled.values())) < oldest:
            self._canceled.popitem(last=False)


def _closed(sandbox_id: str) -> SandboxClosedError:
    return SandboxClosedError(f"sandbox {sandbox_id!r} was released before it was ready")
