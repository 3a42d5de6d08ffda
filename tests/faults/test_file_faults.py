"""Writes that fail half-way: an error, never success; the target is absent, or a whole file."""

from __future__ import annotations

import hashlib
import io
import signal
import tarfile
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox, DiskFullError, Limits
from tests.support.faulty_agent import Client, FaultyAgent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from tests.support.fault_proxy import Plan

MIB = 1 << 20


@pytest.fixture
def agent() -> Iterator[FaultyAgent]:
    """An agent behind a proxy; both are gone afterwards."""
    with FaultyAgent() as made:
        yield made


async def _pieces(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // MIB):
        yield b"n" * MIB


@pytest.mark.needs("limit.disk")
@pytest.mark.parametrize("kind", ["bytes", "iterable", "archive"])
async def test_f2_a_full_disk_leaves_the_old_file_and_its_room(kind: str) -> None:
    async with AsyncSandbox(limits=Limits(disk=64 * MIB)) as sandbox:
        files = sandbox.files
        await files.write("/tmp/f", b"old" * MIB)
        free = "df --output=avail /tmp | tail -1"
        before = (await sandbox.run(free)).stdout

        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "bytes": lambda: files.write("/tmp/f", bytes(100 * MIB)),
            "iterable": lambda: files.write("/tmp/f", _pieces(100 * MIB)),
            "archive": lambda: files.write_archive("/tmp", _archive_of("f", 100 * MIB)),
        }
        with pytest.raises(DiskFullError, match="f"):
            await calls[kind]()

        assert await files.read("/tmp/f") == b"old" * MIB
        assert [entry.name for entry in await files.list("/tmp")] == ["f"]
        assert (await sandbox.run(free)).stdout == before


def _archive_of(name: str, size: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = size
        archive.addfile(member, io.BytesIO(bytes(size)))
    return file.getvalue()


HALF_WAY = """
def pieces():
    for number in range(40):
        if number == 20:
            pause()
        yield b"n" * 1_000_000
await sandbox.files.write("/tmp/f", b"old")
try:
    await sandbox.files.write("/tmp/f", pieces())
except sandboxd.SandboxError as error:
    tell(error=type(error).__name__, may_have_run=error.may_have_run)
else:
    tell(error=None)
"""

LOOK = """
pause()
content = await sandbox.files.read("/tmp/f")
names = [entry.name for entry in await sandbox.files.list("/tmp")]
tell(sha256=hashlib.sha256(content).hexdigest(), names=names)
"""

OLD = hashlib.sha256(b"old").hexdigest()
NEW = hashlib.sha256(b"n" * 40_000_000).hexdigest()


def test_f2_a_connection_that_is_cut_for_good_in_mid_write_leaves_the_old_file(
    agent: FaultyAgent,
) -> None:
    with Client(agent, HALF_WAY + LOOK) as client:
        client.paused()
        agent.proxy.refuse(on=True)
        agent.proxy.cut()
        client.go_on()
        told = client.told()
        agent.proxy.refuse(on=False)
        client.paused()
        client.go_on()

        assert told["error"] in {"ConnectionLostError", "AgentUnreachableError"}
        assert client.told() == {"sha256": OLD, "names": ["f"]}


def test_f2_a_connection_that_is_cut_in_mid_write_costs_one_part(agent: FaultyAgent) -> None:
    with Client(agent, HALF_WAY + LOOK) as client:
        client.paused()
        # Again and again, in the middle of a part; each time some more gets through.
        plans: list[Plan] = [{"cut_to_agent": 3_000_000 + 700_000 * n} for n in range(5)]
        agent.proxy.plans(*plans)
        agent.proxy.cut()
        client.go_on()

        assert client.told() == {"error": None}
        client.paused()
        assert agent.proxy.counts().cuts >= 4
        client.go_on()
        assert client.told() == {"sha256": NEW, "names": ["f"]}


def test_f2_an_agent_that_stops_in_mid_write_means_an_error_and_the_old_file(
    agent: FaultyAgent,
) -> None:
    with Client(agent, HALF_WAY + LOOK) as client:
        client.paused()
        agent.pause(on=True)
        client.go_on()
        told = client.told()
        agent.pause(on=False)
        client.paused()
        client.go_on()

        assert told["error"] in {"ConnectionLostError", "AgentUnreachableError"}
        assert client.told() == {"sha256": OLD, "names": ["f"]}


def test_f2_an_agent_that_is_killed_in_mid_write_means_an_error(agent: FaultyAgent) -> None:
    with Client(agent, HALF_WAY) as client:
        client.paused()
        agent.process.send_signal(signal.SIGKILL)
        agent.process.wait()
        client.go_on()

        errors = {"SandboxLostError", "ConnectionLostError", "AgentUnreachableError"}
        assert client.told()["error"] in errors


def test_f2_a_caller_that_gives_up_leaves_the_old_file_and_its_room(agent: FaultyAgent) -> None:
    body = """
from sandboxd import Limits
async with AsyncSandbox(limits=Limits(disk=64 << 20)) as small:
    class Stop(Exception): pass
    def pieces():
        yield from [b"n" * (1 << 20)] * 40
        raise Stop
    await small.files.write("/tmp/f", b"old")
    for _ in range(5):
        # Each takes more than half of the room.
        try:
            await small.files.write("/tmp/f", pieces())
        except Stop:
            pass
    await small.files.write("/tmp/g", bytes(40 << 20))
    tell(content=(await small.files.read_text("/tmp/f")))
"""
    with Client(agent, body) as client:
        assert client.told() == {"content": "old"}


@pytest.mark.timeout(300)
async def test_f9_a_reader_sees_the_old_file_or_the_new_one_and_nothing_between(
    sandbox: AsyncSandbox,
) -> None:
    """A write replaces the target in one step."""
    old, new = b"A" * (8 * MIB), b"B" * (8 * MIB)
    await sandbox.files.write("/tmp/f", old)
    watch = """
import hashlib
seen = set()
while True:
    data = open("/tmp/f", "rb").read()
    found = hashlib.sha256(data).hexdigest()
    if found not in seen:
        seen.add(found)
        print(found, flush=True)
"""
    reader = await sandbox.start(["python3", "-c", watch])
    for turn in range(200):
        await sandbox.files.write("/tmp/f", new if turn % 2 == 0 else old)
        if turn % 20 == 0:
            assert await sandbox.files.read("/tmp/f") == (new if turn % 2 == 0 else old)
    await reader.kill()
    seen = set((await reader.wait()).stdout.split())

    # Both, so that something was seen; and nothing else.
    assert seen == {hashlib.sha256(data).hexdigest() for data in (old, new)}
    assert [entry.name for entry in await sandbox.files.list("/tmp")] == ["f"]
