"""Attacks over the network: a sandbox has a loopback of its own and nothing else."""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox
from tests.support.attacks import attack

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT = """
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as client:
        client.settimeout(3)
        client.connect(address)
        return "connected"
def reach(family, address, kind=socket.SOCK_STREAM):
    try:
        return attempt(connect, family, address, kind)
    except TimeoutError:
        return "timed out"
"""

UNREACHABLE = {"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL"}


@pytest.fixture
def listener() -> Iterator[tuple[str, int]]:
    """A server of the machine on its loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[:2]


async def test_the_loopback_of_the_machine_is_not_the_sandboxs(
    sandbox: AsyncSandbox, listener: tuple[str, int]
) -> None:
    seen = await attack(sandbox, f"{CONNECT}\ntell(reach(socket.AF_INET, {listener!r}))")

    assert seen == "ECONNREFUSED"


@pytest.mark.parametrize("address", ["169.254.169.254", "1.1.1.1", "10.0.0.1", "192.168.0.1"])
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
async def test_no_address_outside_can_be_reached(
    sandbox: AsyncSandbox, address: str, kind: str
) -> None:
    seen = await attack(
        sandbox, f"{CONNECT}\ntell(reach(socket.AF_INET, ({address!r}, 80), socket.{kind}))"
    )

    assert seen in UNREACHABLE


async def test_no_address_of_the_newer_protocol_can_be_reached(sandbox: AsyncSandbox) -> None:
    seen = await attack(
        sandbox, f"{CONNECT}\ntell(reach(socket.AF_INET6, ('2606:4700:4700::1111', 80)))"
    )

    assert seen in {*UNREACHABLE, "EAFNOSUPPORT"}


async def test_there_is_no_interface_but_a_working_loopback(sandbox: AsyncSandbox) -> None:
    seen = await attack(
        sandbox,
        """
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
client.sendall(b"x")
tell([[name for _, name in socket.if_nameindex()], server.accept()[0].recv(1).decode()])
""",
    )
    assert seen == [["lo"], "x"]


async def test_names_are_not_resolved(sandbox: AsyncSandbox) -> None:
    """A lookup that leaves is a channel out."""
    shown = await sandbox.run("getent hosts secret-data.example.com; echo $?", timeout=20)

    assert shown.stdout.strip() != "0"
    assert shown.stdout.strip().isdigit()
    local = await sandbox.run("getent hosts localhost")
    assert local.exit_code == 0


async def test_abstract_sockets_of_the_machine_and_of_neighbours_are_others() -> None:
    name = f"sandboxd-test-{secrets.token_hex(4)}"
    listen = f"""
server = socket.socket(socket.AF_UNIX)
server.bind("\\0{name}-neighbour")
server.listen()
print("listening", flush=True)
time.sleep(60)
"""
    async with AsyncSandbox() as victim, AsyncSandbox() as attacker:
        process = await victim.start(["python3", "-c", "import socket, time" + listen])
        assert (await process.__aiter__().__anext__()).data == b"listening\n"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"\0{name}")
            server.listen()
            seen = await attack(
                attacker,
                f"{CONNECT}\ntell([reach(socket.AF_UNIX, '\\0' + each) for each in "
                f"('{name}', '{name}-neighbour')])",
            )
    assert seen == ["ECONNREFUSED", "ECONNREFUSED"]


async def test_a_neighbours_server_cannot_be_reached() -> None:
    serve = """
import socket, time
server = socket.create_server(("0.0.0.0", 8123))
print("up", flush=True)
time.sleep(60)
"""
    async with AsyncSandbox() as victim, AsyncSandbox() as attacker:
        process = await victim.start(["python3", "-c", serve])
        assert (await process.__aiter__().__anext__()).data == b"up\n"
        seen = await attack(
            attacker, f"{CONNECT}\ntell(reach(socket.AF_INET, ('127.0.0.1', 8123)))"
        )
    assert seen == "ECONNREFUSED"


@pytest.mark.parametrize(
    ("family", "kind"),
    [("AF_VSOCK", "SOCK_STREAM"), ("AF_ALG", "SOCK_SEQPACKET"), ("AF_PACKET", "SOCK_RAW")],
)
async def test_a_family_of_sockets_that_no_network_namespace_holds_is_refused(
    sandbox: AsyncSandbox, family: str, kind: str
) -> None:
    """A virtual machine's socket to its hypervisor, the kernel's crypto, and raw frames."""
    seen = await attack(
        sandbox,
        f"""
made = attempt(socket.socket, getattr(socket, {family!r}), socket.{kind})
if not isinstance(made, str) and {family!r} == "AF_PACKET":
    # A container may have NET_RAW; then there is only its own loopback to listen to.
    made = "EPERM" if [name for _, name in socket.if_nameindex()] == ["lo"] else "raw"
tell(made if isinstance(made, str) else "made")
""",
    )
    assert seen in {"EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ENOSYS"}


async def test_making_an_interface_is_refused(sandbox: AsyncSandbox) -> None:
    """With NET_ADMIN over its own namespace a sandbox could build tunnels and drop filters."""
    seen = await attack(
        sandbox,
        """
import fcntl
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
SIOCSIFFLAGS = 0x8914
request = struct.pack("16sh14x", b"lo", 0)
tell(attempt(lambda: len(fcntl.ioctl(control, SIOCSIFFLAGS, request))))
""",
    )
    assert seen == "EPERM"
