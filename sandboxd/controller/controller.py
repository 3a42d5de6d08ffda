"""The control plane, put together. Everything that the API offers is a method here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandboxd.controller import pool
from sandboxd.controller.claims import WAITING, Claims
from sandboxd.controller.refill import Refill
from sandboxd.controller.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandboxd._agents import AgentRecord, Claim, Record
    from sandboxd.backends import Backend


@dataclass(frozen=True, slots=True)
class Placed:
    """A sandbox, and where it is."""

    record: Record
    address: str
    """Of its agent."""


class Controller:
    """One control plane over the agents of one backend."""

    def __init__(
        self, backend: Backend, sizes: Mapping[str, int] | None = None, *, waiting: int = WAITING
    ) -> None:
        """Describe it; nothing is started.

        Args:
            backend: Supplies the agents.
            sizes: How many sandboxes of which template should wait for a claim.
            waiting: Claims that may wait for their turn; more are refused.
        """
        self.launches: Counter[tuple[str, str]] = Counter()
        """Claims that were served since the start, by template and launch."""
        self._registry = Registry(backend)
        self._refill = Refill(self._registry, sizes or {})
        self._claims = Claims(self._registry, self._on_claimed, waiting=waiting)

    async def start(self) -> None:
        """Find the agents, or start them, and begin to fill the pools.

        Raises:
            AgentError: If no agent can be started.
            UnknownTemplateError: If a pool's template does not exist.
        """
        await self._registry.find_agents()
        for status in self._refill.statuses:
            await self._refill.check_template(status.template)
        # What exists is known before the first question comes.
        await self._registry.list({})
        self._refill.start()

    async def stop(self) -> None:
        """Stop. Claimed sandboxes live on; agents without any are ended."""
        await self._refill.stop()
        await self._registry.end_idle_agents()
        await self._registry.close()

    async def claim(self, claim: Claim) -> Placed:
        """Claim a sandbox; see `Claims.claim`."""
        record, agent = await self._claims.claim(claim)
        return Placed(record, agent.path)

    async def release(self, sandbox_id: str) -> bool:
        """End a sandbox; see `Claims.release`."""
        return await self._claims.release(sandbox_id)

    async def find(self, sandbox_id: str) -> Placed:
        """Return one sandbox; see `Registry.find`."""
        record, agent = await self._registry.find(sandbox_id)
        return Placed(record, agent.path)

    async def sandboxes(self, labels: Mapping[str, str]) -> list[Placed]:
        """Return the claimed sandboxes that carry all labels; see `Registry.list`."""
        return [Placed(record, agent.path) for record, agent in await self._registry.list(labels)]

    async def templates(self) -> tuple[str, ...]:
        """Return the names of the templates.

        Raises:
            AgentError: If no agent answers.
        """
        return (await self._registry.place().info()).templates

    async def agents(self) -> list[tuple[str, AgentRecord]]:
        """Ask every agent how it is.

        Raises:
            AgentError: If one does not answer.
        """
        return [(agent.path, await agent.info()) for agent in self._registry.agents]

    def pools(self) -> list[pool.PoolStatus]:
        """Return how the pools are."""
        return self._refill.statuses

    async def resize(self, template: str, size: int) -> pool.PoolStatus:
        """Give a pool another size, or begin one.

        Raises:
            UnknownTemplateError: If the template does not exist.
            AgentError: If no agent answers.
        """
        await self._refill.check_template(template)
        return self._refill.resize(template, size)

    def _on_claimed(self, record: Record) -> None:
        self.launches[record.template, record.launch] += 1
        if record.warmed_as:
            self._refill.tell(record.template, pool.Claimed(record.warmed_as))
