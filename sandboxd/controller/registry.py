"""The agents, and which of them has which sandbox.

Nothing here is the truth: the agents are. What is remembered saves questions, and a control plane
that has just started knows every sandbox again by asking.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from sandboxd._agents import AgentClient
from sandboxd.exceptions import AgentError, AgentUnreachableError, SandboxNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandboxd._agents import Record
    from sandboxd.backends import Backend

LOG = logging.getLogger("sandboxd.controller")

_REMEMBERED = 100_000
"""Sandboxes whose agent is remembered; others are asked for."""


class Registry:
    """The agents of one backend."""

    def __init__(self, backend: Backend) -> None:
        """Describe them; nothing is started."""
        self._backend = backend
        self._agents: dict[str, AgentClient] = {}
        self._where: OrderedDict[str, AgentClient] = OrderedDict()
        self._looking = asyncio.Lock()
        """One look at the backend at a time: each may start agents."""

    async def find_agents(self) -> None:
        """Have the backend find its agents, and start those that are missing.

        Raises:
            AgentError: If one cannot be started.
        """
        async with self._looking:
            addresses = await self._backend.agents()
            for address in addresses:
                known = self._agents.get(address)
                if known is None:
                    known = self._agents[address] = AgentClient(address)
                elif await _answers(known):
                    continue
                else:
                    await known.reconnect()
                info = await known.info()
                LOG.info("agent=%s pid=%d sandboxes=%d", address, info.pid, info.sandboxes)
            for address in self._agents.keys() - set(addresses):
                await self._agents.pop(address).close()

    async def close(self) -> None:
        """Close the connections. The agents live on."""
        for agent in self._agents.values():
            await agent.close()
        self._agents.clear()

    @property
    def agents(self) -> list[AgentClient]:
        """All of them."""
        return list(self._agents.values())

    def place(self) -> AgentClient:
        """Choose the agent of a new sandbox.

        Raises:
            AgentUnreachableError: If there is none.
        """
        for agent in self._agents.values():
            return agent
        raise AgentUnreachableError("no agent is up: see the log of the control plane")

    def note(self, sandbox_id: str, agent: AgentClient) -> None:
        """Remember where a sandbox is."""
        self._where[sandbox_id] = agent
        self._where.move_to_end(sandbox_id)
        while len(self._where) > _REMEMBERED:
            self._where.popitem(last=False)

    def knows(self, sandbox_id: str) -> bool:
        """Whether a sandbox was seen or claimed here."""
        return sandbox_id in self._where

    async def list(
        self, labels: Mapping[str, str], *, ended: bool = False, warm: bool = False
    ) -> list[tuple[Record, AgentClient]]:
        """Ask every agent for its sandboxes.

        Raises:
            AgentError: If one does not answer: what it has is not known, and must not look gone.
        """
        answers = await asyncio.gather(
            *(agent.list(labels, ended=ended, warm=warm) for agent in self.agents)
        )
        found = [
            (record, agent)
            for agent, records in zip(self.agents, answers, strict=True)
            for record in records
        ]
        for record, agent in found:
            if record.state != "warm":
                self.note(record.sandbox_id, agent)
        return found

    async def find(self, sandbox_id: str) -> tuple[Record, AgentClient]:
        """Return a sandbox, also one that ended not long ago.

        Raises:
            SandboxNotFoundError: If no agent knows it.
            AgentError: If an agent does not answer.
        """
        for record, agent in await self.list({}, ended=True):
            if record.sandbox_id == sandbox_id:
                return record, agent
        raise SandboxNotFoundError(f"no sandbox has the id {sandbox_id!r}")

    async def release(self, sandbox_id: str) -> bool:
        """End a sandbox wherever it is, and return whether it was still there.

        Raises:
            AgentError: If an agent that may have it does not answer.
        """
        known = self._where.pop(sandbox_id, None)
        agents = [known] if known is not None else self.agents
        answers = await asyncio.gather(*(agent.release(sandbox_id) for agent in agents))
        return any(answers)

    async def end_idle_agents(self) -> None:
        """End the agents that have no sandbox of anybody, and with them what waits for a claim."""
        for agent in self.agents:
            try:
                info = await agent.info()
            except AgentError as error:
                LOG.warning("agent=%s does not answer: %s", agent.path, error)
                continue
            if info.sandboxes:
                LOG.warning(
                    "agent=%s pid=%d is left with sandboxes=%d that are claimed",
                    agent.path,
                    info.pid,
                    info.sandboxes,
                )
                continue
            await self._backend.end(agent.path)
            LOG.info("agent=%s pid=%d ended", agent.path, info.pid)


async def _answers(agent: AgentClient) -> bool:
    try:
        await agent.info()
    except AgentError:
        return False
    return True
