"""What the control plane needs from whatever supplies agents."""

from __future__ import annotations

from typing import Protocol


class Backend(Protocol):
    """Supplies agents, which outlive the control plane that asked for them."""

    async def agents(self) -> list[str]:
        """Find the agents, start those that are missing, and return their addresses.

        Called again whenever one does not answer. Sandboxes of one that died are gone.

        Raises:
            AgentError: If one cannot be started.
        """

    async def end(self, address: str) -> None:
        """End an agent and everything in it, and return when it is gone."""
