"""The same no-op call to the same agent, over gRPC, which every other client speaks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.benchmarks.missing import MissingReferenceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_METHOD = "/sandboxd.agent.v1.Sandboxes/Info"


def _unchanged(message: bytes) -> bytes:
    """Leaves the message as bytes: what decoding costs is not this reference's business."""
    return message


def grpc_call(agent_socket: Path) -> Callable[[], Awaitable[int]]:
    """One call of Sandboxes.Info with grpc.aio. Needs a running event loop.

    Raises:
        MissingReferenceError: grpcio is not installed.
    """
    try:
        # Here, not above: grpcio starts threads, which no other benchmark should share.
        from grpc import aio  # noqa: PLC0415  (as above)
    except ImportError as error:
        raise MissingReferenceError("grpcio is not installed (PyPI package grpcio)") from error
    # A path is no host name, and HTTP/2 servers refuse it as one.
    channel = aio.insecure_channel(
        f"unix:{agent_socket}", options=[("grpc.default_authority", "localhost")]
    )
    call = channel.unary_unary(
        _METHOD, request_serializer=_unchanged, response_deserializer=_unchanged
    )

    async def info() -> int:
        start = time.perf_counter_ns()
        answer = await call(b"")
        elapsed = time.perf_counter_ns() - start
        if not answer:
            raise RuntimeError("Sandboxes.Info answered nothing over gRPC")
        return elapsed

    return info
