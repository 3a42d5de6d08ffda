"""What goes into the API and what comes out. Times in seconds, sizes in bytes, moments as ISO 8601.

Unknown fields are refused: a misspelt limit that is ignored is a limit that is not there.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from sandboxd._agents import Claim, Limits

if TYPE_CHECKING:
    from sandboxd._agents import Record
    from sandboxd.controller import Placed, PoolStatus

ID = r"^[A-Za-z0-9_.-]{1,64}$"

_LONGEST = 100 * 365 * 86_400
_BYTES = 2**63 - 1

Identifier = Annotated[str, StringConstraints(pattern=ID)]
Seconds = Annotated[float, Field(gt=0, le=_LONGEST, allow_inf_nan=False, strict=True)]
Size = Annotated[int, Field(ge=1, le=_BYTES, strict=True)]


class Body(BaseModel):
    """A body that has exactly its fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Raw(Body):
    """Bytes that are not text."""

    base64: str

    @field_validator("base64")
    @classmethod
    def _is_base64(cls, value: str) -> str:
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64: {error}") from None
        return value

    def data(self) -> bytes:
        """The bytes."""
        return base64.b64decode(self.base64)


Text = str | Raw
"""Text, or bytes that are not."""


class LimitsBody(Body):
    """What a sandbox may use; absent is the template's value."""

    memory: Size | None = None
    """Bytes of memory, files included."""
    pids: Annotated[int, Field(ge=1, le=2**32 - 1, strict=True)] | None = None
    """Processes and threads."""
    cpus: Annotated[float, Field(ge=0.01, le=10_000, strict=True)] | None = None
    """Cores. A share other than the template's makes the launch cold."""
    disk: Size | None = None
    """Bytes of files."""
    output: Size | None = None
    """Bytes of output of one exec."""

    def limits(self) -> Limits:
        """As agents take them."""
        return Limits(
            memory_bytes=self.memory,
            pids=self.pids,
            cpu_millis=None if self.cpus is None else round(self.cpus * 1000),
            disk_bytes=self.disk,
            output_bytes=self.output,
        )


class ClaimBody(Body):
    """A claim of a sandbox."""

    id: Identifier | None = None
    """Its name. Absent: made from the `Idempotency-Key`, else a fresh one."""
    template: Annotated[str, Field(min_length=1, max_length=4_095)] = "host"
    limits: LimitsBody = LimitsBody()
    ttl: Seconds | None = None
    """Seconds from the claim. Absent: 24 hours."""
    idle_timeout: Seconds | None = None
    """Seconds without a running exec or a call. Absent: none."""
    env: dict[str, Text] = Field(default_factory=dict)
    cwd: Text | None = None
    user: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)

    def claim(self, sandbox_id: str) -> Claim:
        """As agents take it."""
        return Claim(
            sandbox_id=sandbox_id,
            template=self.template,
            limits=self.limits.limits(),
            ttl_ns=_nanoseconds(self.ttl),
            idle_timeout_ns=_nanoseconds(self.idle_timeout),
            env=tuple((name.encode(), _data(value)) for name, value in self.env.items()),
            cwd=b"" if self.cwd is None else _data(self.cwd),
            user=self.user or "",
            labels=self.labels,
        )


class AgentBody(Body):
    """Where a sandbox is reached from now on, without this API."""

    address: str
    """`unix:` and the path of a socket."""


class SandboxBody(Body):
    """A sandbox."""

    id: str
    template: str
    state: str
    """`starting`, `ready` or `ended`."""
    launch: str
    """`warm`: it waited for the claim. `cold`: it was made for it."""
    cold_because: str | None
    """The field of the claim that made the launch cold although one waited."""
    startup: float
    """Seconds from the claim at its agent until it was ready."""
    warmed_startup: float
    """Seconds of a start that happened before the claim."""
    limits: LimitsBody
    created_at: datetime
    expires_at: datetime
    running_execs: int
    labels: dict[str, str]
    agent: AgentBody

    @classmethod
    def of(cls, placed: Placed) -> SandboxBody:
        """Describe a sandbox."""
        record = placed.record
        return cls(
            id=record.sandbox_id,
            template=record.template,
            state=record.state,
            launch=record.launch,
            cold_because=record.cold_because or None,
            startup=record.startup,
            warmed_startup=record.warmed_startup,
            limits=_limits(record),
            created_at=datetime.fromtimestamp(record.created_at, timezone.utc),
            expires_at=datetime.fromtimestamp(record.expires_at, timezone.utc),
            running_execs=record.running_execs,
            labels=dict(record.labels),
            agent=AgentBody(address=f"unix:{placed.address}"),
        )


class SandboxesBody(Body):
    """Sandboxes, oldest first."""

    sandboxes: list[SandboxBody]


class ReleasedBody(Body):
    """What a release came to."""

    id: str
    released: bool
    """Whether it was still there. False is no error."""


class PoolBody(Body):
    """A warm pool."""

    template: str
    size: int
    """How many should wait for a claim."""
    ready: int
    """How many wait."""
    making: int
    """How many are being made."""
    state: Literal["ready", "filling", "degraded"]
    error: str | None
    """Why the last one could not be made."""
    claims: dict[str, int]
    """Claims of the template since the start of this control plane, by launch."""

    @classmethod
    def of(cls, status: PoolStatus, claims: dict[str, int]) -> PoolBody:
        """Describe a pool."""
        return cls(
            template=status.template,
            size=status.size,
            ready=status.ready,
            making=status.making,
            state=status.state,
            error=status.error or None,
            claims=claims,
        )


class PoolsBody(Body):
    """Pools, by the name of their template."""

    pools: list[PoolBody]


class ResizeBody(Body):
    """Another size for a pool."""

    size: Annotated[int, Field(ge=0, le=4_096, strict=True)]


class TemplatesBody(Body):
    """Names of templates."""

    templates: list[str]


class HealthBody(Body):
    """That somebody is there."""

    status: Literal["ok"] = "ok"


def _nanoseconds(seconds: float | None) -> int | None:
    # As the SDK rounds: an agent knows a repeated claim by it.
    return None if seconds is None else max(1, round(seconds * 1e9))


def _data(value: Text) -> bytes:
    return value.data() if isinstance(value, Raw) else value.encode()


def _limits(record: Record) -> LimitsBody:
    limits = record.limits
    return LimitsBody(
        memory=limits.memory_bytes,
        pids=limits.pids,
        cpus=None if limits.cpu_millis is None else limits.cpu_millis / 1000,
        disk=limits.disk_bytes,
        output=limits.output_bytes,
    )
