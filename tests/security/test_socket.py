"""Attacks on the agent's socket, from beside the sandbox."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sandboxd
from sandboxd import AsyncSandbox, Sandbox
from tests.support.ordinary import NOBODY, become
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.agent_probe import AgentProbe

KNOCK = """
import socket, struct, sys
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(5)
    try:
        client.connect(sys.argv[1])
        client.sendall(sys.stdin.buffer.read())
        print(client.recv(65536))
    except OSError as error:
        print(type(error).__name__)
"""

HELLO = b"SBX1" + struct.pack("<IIB", 5, 0, 0)

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.fixture
def agent_socket() -> Path:
    """The socket of the agent of this process."""
    with Sandbox() as sandbox:
        sandbox.ready()
    found = list(Path(os.environ["SANDBOXD_STATE"], "sockets").glob("*.sock"))
    assert len(found) == 1
    return found[0]


@pytest.fixture
def open_door(agent_socket: Path) -> Iterator[str]:
    """The socket with every permission of the file system taken away.

    The path goes through a descriptor, so that only the agent's own check is left.
    """
    mode = agent_socket.stat().st_mode & 0o777
    agent_socket.chmod(0o666)
    handle = os.open(agent_socket, os.O_PATH)
    os.set_inheritable(handle, True)  # noqa: FBT003  (the name says what)
    yield f"/proc/self/fd/{handle}"
    os.close(handle)
    agent_socket.chmod(mode)


def _knock(path: str, words: bytes, uid: int | None) -> str:
    argv = [*(become(uid) if uid is not None else []), sys.executable, "-c", KNOCK, path]
    handle = int(path.rsplit("/", 1)[1]) if path.startswith("/proc/self/fd/") else None
    done = subprocess.run(
        argv,
        input=words,
        capture_output=True,
        pass_fds=[handle] if handle is not None else [],
        timeout=20,
        check=False,
    )
    return done.stdout.decode()


@pytest.mark.needs("ordinary")
def test_another_users_connection_is_refused_by_the_file_system(agent_socket: Path) -> None:
    assert _knock(str(agent_socket), HELLO, NOBODY) == "PermissionError\n"
    assert agent_socket.parent.stat().st_mode & 0o077 == 0


@pytest.mark.needs("ordinary")
@pytest.mark.parametrize("words", [HELLO, HTTP2], ids=["frames", "grpc"])
def test_another_users_connection_is_refused_by_its_credentials(
    open_door: str, words: bytes
) -> None:
    """The second lock: whoever gets past the folder is told apart by the kernel."""
    own = _knock(open_door, words, None)
    foreign = _knock(open_door, words, NOBODY)

    assert own not in {"b''\n", ""}, "the owner is served"
    assert sandboxd.__version__ not in foreign
    assert foreign in {"b''\n", "ConnectionResetError\n", "BrokenPipeError\n"} or (
        "unauthenticated" in foreign
    )


GARBAGE = {
    "nothing": b"",
    "half a preface": b"SB",
    "no protocol at all": b"GET / HTTP/1.1\r\n\r\n",
    "random bytes": bytes(range(256)) * 64,
    "a frame that is too long": b"SBX1" + struct.pack("<IIB", 0xFFFFFFFF, 0, 0),
    "a frame that is too short": b"SBX1" + struct.pack("<IIB", 0, 0, 0),
    "an unknown kind": b"SBX1" + struct.pack("<IIB", 5, 1, 99),
    "a request before the greeting": b"SBX1" + struct.pack("<IIB", 6, 1, 1) + b"\x01",
    "a request of no method": HELLO + struct.pack("<IIB", 6, 1, 1) + b"\xff",
    "a request without a body": HELLO + struct.pack("<IIB", 5, 1, 1),
    "a message that is none": HELLO + struct.pack("<IIB", 10, 1, 1) + b"\x01\xff\xff\xff\xff",
    "an answer to a call that never was": HELLO + struct.pack("<IIB", 5, 77, 2),
    "credit for nobody": HELLO + struct.pack("<IIB", 9, 77, 6) + b"\xff\xff\xff\xff",
    "a cancel of nothing": HELLO + struct.pack("<IIB", 5, 77, 7),
    "half a frame": HELLO + struct.pack("<IIB", 500, 1, 1) + b"\x01",
    "an end of nothing": HELLO + struct.pack("<IIB", 5, 1, 4),
    "broken http2": HTTP2 + b"\xff" * 1000,
}


@pytest.mark.parametrize("what", GARBAGE)
def test_bytes_that_are_no_protocol_harm_nobody_else(
    agent_socket: Path, agent: AgentProbe, what: str
) -> None:
    with Sandbox() as sandbox:
        sandbox.run("true")
        before = agent.resources()
        pid = agent.pid
        for _ in range(20):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(0.2)
                client.connect(str(agent_socket))
                try:
                    client.sendall(GARBAGE[what])
                    client.recv(65536)
                except OSError:
                    pass
        assert sandbox.run("echo on").stdout == "on\n"
        assert agent.pid == pid
        wait_until(lambda: agent.resources().is_flat_since(before))


def test_connections_that_say_nothing_do_not_keep_others_out(
    agent_socket: Path, agent: AgentProbe
) -> None:
    before = agent.resources()
    silent = []
    try:
        for _ in range(200):
            client = socket.socket(socket.AF_UNIX)
            silent.append(client)
            client.settimeout(2)
            client.connect(str(agent_socket))
        with Sandbox() as sandbox:
            assert sandbox.run("echo on").stdout == "on\n"
    finally:
        for client in silent:
            client.close()
    wait_until(lambda: agent.resources().is_flat_since(before))


async def test_a_sandbox_cannot_find_or_reach_the_agents_socket(
    sandbox: AsyncSandbox, agent_socket: Path
) -> None:
    shown = await sandbox.run(
        f"test -e {agent_socket}; echo $?; cat /proc/net/unix | grep sandboxd"
    )

    assert shown.stdout == "1\n"
