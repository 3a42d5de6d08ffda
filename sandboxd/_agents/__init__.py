"""The control plane's way to agents: gRPC, without anything of the SDK."""

from sandboxd._agents.client import AgentClient
from sandboxd._agents.records import AgentRecord, Claim, Limits, Record

__all__ = ["AgentClient", "AgentRecord", "Claim", "Limits", "Record"]
