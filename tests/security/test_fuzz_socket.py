"""Arbitrary bytes at the agent's socket: the agent lives, and nobody else notices.

Seeded; `SANDBOXD_TEST_FUZZ` multiplies the number of cases.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

import sandboxd
from sandboxd import Sandbox
from sandboxd._proto.agent.v1 import exec_pb2, files_pb2, sandboxes_pb2
from tests.support.seeds import seeded
from tests.support.waiting import eventually, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from sandboxd import AsyncSandbox
    from tests.support.agent_probe import AgentProbe

CASES = 150 * int(os.environ.get("SANDBOXD_TEST_FUZZ", "1"))

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"

SERVICES = {
    "Exec": (exec_pb2.DESCRIPTOR, "Exec"),
    "Files": (files_pb2.DESCRIPTOR, "Files"),
    "Sandboxes": (sandboxes_pb2.DESCRIPTOR, "Sandboxes"),
}


def _hello() -> bytes:
    version = sandboxd.__version__.encode()
    message = b"\x0a" + bytes([len(version)]) + version
    return b"SBX1" + struct.pack("<IIB", 5 + len(message), 0, 0) + message


def _bytes(chance: Random) -> bytes:
    """Nonsense, or a beginning that looks like one of the protocols."""
    beginning = chance.choice([b"", b"SBX1", _hello(), HTTP2, HTTP2 + SETTINGS, b"PRI ", b"S"])
    return beginning + chance.randbytes(chance.choice([0, 1, 9, 100, 70_000]))


def _frames(chance: Random) -> bytes:
    """Frames of ours with the right length: any kind, any call, any method, any body."""
    said = _hello()
    for _ in range(chance.randint(1, 30)):
        kind = chance.randrange(11)
        body = chance.randbytes(chance.choice([0, 1, 4, 5, 40, 3000]))
        if kind == 1 and chance.random() < 0.8:
            body = bytes([chance.choice([1, 2, *range(16, 26), *range(32, 46), 255])]) + body
        said += struct.pack("<IIB", 5 + len(body), chance.randrange(6), kind) + body
    return said


def _http2(chance: Random) -> bytes:
    """Frames of HTTP/2 with the right length: any type, any flags, any stream, any payload."""
    said = HTTP2 + SETTINGS
    for _ in range(chance.randint(1, 40)):
        payload = chance.randbytes(chance.choice([0, 4, 5, 8, 30, 2000]))
        stream = chance.choice([0, 1, 1, 3, 5, 2**31 - 1])
        kind = chance.choice([0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 77])
        said += struct.pack(">I", len(payload))[1:] + bytes([kind, chance.randrange(256)])
        said += struct.pack(">I", stream) + payload
    return said


def _socket() -> Path:
    (path,) = Path(os.environ["SANDBOXD_STATE"], "sockets").glob("*.sock")
    return path


def _say(path: Path, words: bytes, chance: Random) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(chance.choice([0.01, 0.05]))
        client.connect(str(path))
        try:
            client.sendall(words)
            if chance.random() < 0.3:
                client.shutdown(socket.SHUT_WR)
            while client.recv(65_536):
                pass
        except OSError:
            # It hung up on us, or says nothing: both are answers.
            pass


@pytest.mark.timeout(300)
@pytest.mark.parametrize("make", [_bytes, _frames, _http2])
async def test_arbitrary_bytes_end_their_own_connection_at_most(
    sandbox: AsyncSandbox, agent: AgentProbe, make: Callable[[Random], bytes]
) -> None:
    chance = seeded(f"{CASES} cases of {make.__name__}")
    pid, before = agent.pid, agent.resources()
    process = await sandbox.start("cat", stdin=True)
    loop = asyncio.get_running_loop()
    for number in range(CASES):
        await loop.run_in_executor(None, _say, _socket(), make(chance), chance)
        if number % 10 == 0:
            # A connection that was there before, and a call that waits on it.
            await process.write_stdin(f"{number}\n")
            assert (await process.__anext__()).data == f"{number}\n".encode()
    await process.close_stdin()
    assert (await process.wait()).exit_code == 0
    assert agent.pid == pid
    await eventually(lambda: agent.resources().is_flat_since(before))


@pytest.mark.timeout(300)
def test_arbitrary_messages_to_every_call_of_grpc_are_answered(agent: AgentProbe) -> None:
    """With an answer or a status, in time, and never with one that says that the agent broke."""
    chance = seeded(f"{CASES} messages")
    methods = [
        f"/sandboxd.agent.v1.{name}/{method.name}"
        for name, (descriptor, service) in SERVICES.items()
        for method in descriptor.services_by_name[service].methods
    ]
    options = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
    broken = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE}
    with Sandbox() as sandbox:
        sandbox.run("true")
        pid, before = agent.pid, agent.resources()
        with grpc.insecure_channel(f"unix:{_socket()}", options=options) as channel:
            for _ in range(CASES):
                method = chance.choice([*methods, "/sandboxd.agent.v1.Exec/Nothing", "/x"])
                parts = [_message(chance, sandbox.id) for _ in range(chance.randint(0, 3))]
                status = _call(channel, method, parts)
                assert status not in broken, f"{method} {parts!r}: {status}"
        with Sandbox() as other:
            assert other.run("echo on").stdout == "on\n"
        assert agent.pid == pid
        wait_until(lambda: agent.resources().is_flat_since(before))


def _call(channel: grpc.Channel, method: str, parts: list[bytes]) -> grpc.StatusCode:
    call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(method)
    try:
        for _ in call(iter(parts), timeout=2):
            pass
    except grpc.RpcError as error:
        assert isinstance(error, grpc.Call)  # noqa: PT017  (for its type)
        return error.code()
    return grpc.StatusCode.OK


def _message(chance: Random, sandbox_id: str) -> bytes:
    """Bytes that may be a message: nonsense, or fields of any number and kind."""
    if chance.random() < 0.3:
        return chance.randbytes(chance.choice([0, 1, 20, 400]))
    said = bytearray()
    for _ in range(chance.randint(0, 5)):
        number, kind = chance.randint(1, 9), chance.choice([0, 2, 2, 2, 1, 5])
        said.append(number << 3 | kind)
        if kind == 0:
            said.append(chance.randrange(128))
        elif kind == 2:
            text = chance.choice([b"", b"x", b"/tmp/f", chance.randbytes(9)])
            # The sandbox that exists has no use for it: it is another test's word for one.
            text = sandbox_id.encode() if number == 1 and chance.random() < 0.5 else text
            said += bytes([len(text)]) + text
        else:
            said += chance.randbytes(8 if kind == 1 else 4)
    return bytes(said)
