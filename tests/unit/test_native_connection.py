"""The extension's connection on an event loop, against a peer that goes away."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from sandboxd._native import Connection, NativeError, info_request

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_cancel_that_finds_the_peer_gone_leaves_no_other_call_waiting(
    tmp_path: Path,
) -> None:
    loop = asyncio.get_running_loop()
    failed = asyncio.Event()
    path = str(tmp_path / "agent.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        connection = Connection(
            path, keepalive=60, greeting=60, on_failed=lambda _connection: failed.set()
        )
        accepted, _ = listener.accept()
    loop.add_reader(connection.fileno(), connection.on_readable)
    calls: dict[int, asyncio.Future[Any]] = {}
    for _ in range(2):
        future: asyncio.Future[Any] = loop.create_future()
        calls[connection.submit(info_request(), future)] = future
    given_up, other = calls.items()
    accepted.close()
    # In the same turn of the loop: it cannot have seen that the socket ended.
    connection.cancel(given_up[0])
    with pytest.raises(NativeError):
        await asyncio.wait_for(other[1], 5)
    await asyncio.wait_for(failed.wait(), 5)
    loop.remove_reader(connection.fileno())
