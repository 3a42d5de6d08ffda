"""What is said to agents and by them, without the messages that carry it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sandbox may use; `None` is the template's value, or none."""

    memory_bytes: int | None = None
    pids: int | None = None
    cpu_millis: int | None = None
    disk_bytes: int | None = None
    output_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed. The agent knows a repeated claim by all of it."""

    sandbox_id: str
    template: str
    limits: Limits = field(default_factory=Limits)
    ttl_ns: int | None = None
    idle_timeout_ns: int | None = None
    env: tuple[tuple[bytes, bytes], ...] = ()
    cwd: bytes = b""
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """A sandbox as its agent sees it. Durations in seconds, points in time since the epoch."""

    sandbox_id: str
    template: str
    state: str
    """`starting`, `ready`, `ended` or `warm`."""
    launch: str
    """`warm` or `cold`."""
    startup: float
    """From the claim until it was ready, or a warm one was bound."""
    warmed_as: str
    """Launched warm: its name before the claim."""
    warmed_startup: float
    """Launched warm: the start that nobody waited for."""
    cold_because: str
    """Launched cold although warm ones were there: the field that one is made for."""
    limits: Limits
    created_at: float
    expires_at: float
    running_execs: int
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """What an agent says about itself."""

    version: str
    pid: int
    sandboxes: int
    """Claimed ones that have not ended."""
    templates: tuple[str, ...]
