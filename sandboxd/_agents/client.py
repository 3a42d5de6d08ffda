"""One agent, over gRPC. Every call ends: with an answer, or with an error of ours.

Errors have the agent's own code, which travels in the details of the status; a status without one
comes from the connection, and says that the agent cannot be reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import grpc.aio

from sandboxd._agents.records import AgentRecord, Claim, Limits, Record
from sandboxd._proto.agent.v1 import connection_pb2, sandboxes_pb2, sandboxes_pb2_grpc
from sandboxd.exceptions import AgentUnreachableError, ConnectionLostError, from_code

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from sandboxd.exceptions import SandboxError

T = TypeVar("T")

_ANSWER = 10.0
"""Seconds for answers that cost an agent nothing."""

_MAKE = 60.0
"""Seconds for what makes or ends a sandbox; agents give up after 30."""

_OPTIONS = (
    # The agent's HTTP/2 library refuses the path of a socket as an authority.
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", -1),
    # One connection per client: a new client must not inherit the backoff of an old one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

_STATES = {
    sandboxes_pb2.SANDBOX_STATE_STARTING: "starting",
    sandboxes_pb2.SANDBOX_STATE_READY: "ready",
    sandboxes_pb2.SANDBOX_STATE_ENDED: "ended",
    sandboxes_pb2.SANDBOX_STATE_WARM: "warm",
}
_LAUNCHES = {sandboxes_pb2.LAUNCH_WARM: "warm", sandboxes_pb2.LAUNCH_COLD: "cold"}
_NANOSECONDS = 1e9


class AgentClient:
    """The calls of the control plane to one agent."""

    def __init__(self, path: str) -> None:
        """Name the agent by its socket; nothing is sent. Needs a running event loop."""
        self.path = path
        self._connect()

    def _connect(self) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{self.path}", options=_OPTIONS)
        self._sandboxes: Any = sandboxes_pb2_grpc.SandboxesStub(self._channel)

    async def reconnect(self) -> None:
        """Begin anew with another agent at the same address: a pause of the old one's is over."""
        old = self._channel
        self._connect()
        await old.close()

    async def close(self) -> None:
        """Close the connection. Calls under way end with an error."""
        await self._channel.close()

    async def info(self) -> AgentRecord:
        """Return what the agent says about itself.

        Raises:
            AgentError: If it does not answer.
        """
        info = await self._call(
            self._sandboxes.Info(sandboxes_pb2.SandboxesInfoRequest(), timeout=_ANSWER)
        )
        return AgentRecord(info.version, info.pid, info.sandboxes, tuple(info.templates))

    async def list(
        self, labels: Mapping[str, str], *, ended: bool = False, warm: bool = False
    ) -> list[Record]:
        """Return the sandboxes that carry all labels.

        Args:
            labels: Names and values.
            ended: Whether also those that ended not long ago.
            warm: Whether also those that nobody has claimed.

        Raises:
            AgentError: If it does not answer.
        """
        request = sandboxes_pb2.SandboxesListRequest(
            labels=labels, include_ended=ended, include_warm=warm
        )
        listed = await self._call(self._sandboxes.List(request, timeout=_ANSWER))
        return [_record(each) for each in listed.sandboxes]

    async def claim(self, claim: Claim) -> Record:
        """Claim a sandbox and return when it is ready. The same claim again finds the same one.

        Raises:
            SandboxError: If the agent refuses it, or could not make one.
            AgentError: If it does not answer; the claim may have been made.
        """
        limits = claim.limits
        request = sandboxes_pb2.SandboxesClaimRequest(
            sandbox_id=claim.sandbox_id,
            template=claim.template,
            # Present even when empty, as the SDK sends it: the agent compares claims by all fields.
            limits=sandboxes_pb2.Limits(
                memory_bytes=limits.memory_bytes,
                pids=limits.pids,
                cpu_millis=limits.cpu_millis,
                disk_bytes=limits.disk_bytes,
                output_bytes=limits.output_bytes,
            ),
            ttl_ns=claim.ttl_ns,
            idle_timeout_ns=claim.idle_timeout_ns,
            env=[sandboxes_pb2.EnvVar(name=name, value=value) for name, value in claim.env],
            cwd=claim.cwd,
            user=claim.user,
            labels=claim.labels,
        )
        answer = await self._call(self._sandboxes.Claim(request, timeout=_MAKE))
        return _record(answer.sandbox)

    async def warm(self, name: str, template: str) -> Record:
        """Make a sandbox that waits for a claim, and return when it is ready.

        Raises:
            SandboxError: If the agent refuses it, or could not make one.
            AgentError: If it does not answer; one may have been made.
        """
        request = sandboxes_pb2.SandboxesWarmRequest(sandbox_id=name, template=template)
        answer = await self._call(self._sandboxes.Warm(request, timeout=_MAKE))
        return _record(answer.sandbox)

    async def release(self, sandbox_id: str) -> bool:
        """End a sandbox, and return whether it was still there.

        Raises:
            AgentError: If the agent does not answer.
        """
        request = sandboxes_pb2.SandboxesReleaseRequest(sandbox_id=sandbox_id)
        answer = await self._call(self._sandboxes.Release(request, timeout=_MAKE))
        return bool(answer.released)

    async def _call(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from None

    def _error(self, error: grpc.aio.AioRpcError) -> SandboxError:
        carried = _carried(error)
        if carried is not None and carried.code:
            return from_code(
                carried.code,
                carried.message,
                may_have_run=carried.may_have_run,
                reason=carried.reason,
            )
        words = f"agent at {self.path}: {error.details() or error.code().name}"
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return AgentUnreachableError(words)
        return ConnectionLostError(words, may_have_run=True)


def _carried(error: grpc.aio.AioRpcError) -> connection_pb2.Error | None:
    """Find the agent's own error among what came with the status."""
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            return connection_pb2.Error.FromString(value)
    return None


def _record(sandbox: Any) -> Record:
    limits = sandbox.limits

    def limit(name: str) -> int | None:
        return getattr(limits, name) if limits.HasField(name) else None

    return Record(
        sandbox_id=sandbox.sandbox_id,
        template=sandbox.template,
        state=_STATES.get(sandbox.state, "unspecified"),
        launch=_LAUNCHES.get(sandbox.launch, "unspecified"),
        startup=sandbox.startup_ns / _NANOSECONDS,
        warmed_as=sandbox.warmed_as,
        warmed_startup=sandbox.warmed_startup_ns / _NANOSECONDS,
        cold_because=sandbox.cold_because,
        limits=Limits(
            memory_bytes=limit("memory_bytes"),
            pids=limit("pids"),
            cpu_millis=limit("cpu_millis"),
            disk_bytes=limit("disk_bytes"),
            output_bytes=limit("output_bytes"),
        ),
        created_at=sandbox.created_unix_ns / _NANOSECONDS,
        expires_at=sandbox.expires_unix_ns / _NANOSECONDS,
        running_execs=sandbox.running_execs,
        labels=dict(sandbox.labels),
    )
