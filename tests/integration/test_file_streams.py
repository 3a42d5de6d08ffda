"""Files of any size in flat memory, and a connection that is cut in between."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import random
from pathlib import Path

import pytest

from sandboxd import (
    AsyncSandbox,
    InvalidArgumentError,
    Limits,
    Sandbox,
    SandboxFileExistsError,
    SandboxFileNotFoundError,
)
from tests.support import reference
from tests.support.faulty_agent import Client, FaultyAgent

MIB = 1 << 20
FLAT = 96 * MIB
"""Bytes by which a process may grow while a file passes through it: less than any of the files."""

BODY = """
import random, resource, tempfile
from pathlib import Path
from sandboxd import Limits

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

size = {size}
seed = random.Random(5).randbytes(1 << 20)
promised = hashlib.sha256()

def pieces():
    for number in range(size >> 20):
        piece = seed[:-8] + number.to_bytes(8, "big")
        promised.update(piece)
        yield piece

limits = Limits(disk=size + (128 << 20))
async with AsyncSandbox(limits=limits) as big:
    await big.ready()
    await big.files.write("/tmp/warm", bytes(32 << 20))
    before = peak()
    pause()
    written = await big.files.write("/tmp/f", pieces())
    pause()
    read = hashlib.sha256()
    async for chunk in await big.files.stream("/tmp/f"):
        read.update(chunk)
    with tempfile.TemporaryDirectory() as folder:
        pause()
        copied = await big.files.download("/tmp/f", folder + "/copy")
        left = [each.name for each in Path(folder).iterdir()]
    inside = (await big.run("sha256sum < /tmp/f")).stdout[:64]
    hashes = [written.sha256, read.hexdigest(), copied.sha256, inside]
    sizes = [written.size, copied.size]
    tell(right=promised.hexdigest(), hashes=hashes, sizes=sizes, left=left, grown=peak() - before)
"""


def _peak(pid: int) -> int:
    """Most resident bytes of a process so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [192 * MIB, pytest.param(2048 * MIB, marks=pytest.mark.soak)])
def test_f5_memory_stays_flat_and_the_hash_right_with_a_connection_cut_in_between(
    size: int,
) -> None:
    with FaultyAgent() as agent, Client(agent, BODY.format(size=size)) as client:
        client.paused()
        before = _peak(agent.process.pid)
        # Up, then down twice: each time in the middle of a part.
        for plan in (
            {"cut_to_agent": size // 2 + 12_345},
            {"cut_to_client": size // 2 + 12_345},
            {"cut_to_client": size // 3},
        ):
            cuts = agent.proxy.counts().cuts
            agent.proxy.plans(plan)  # type: ignore[arg-type]  # (one of its keys)
            agent.proxy.cut()
            client.go_on()
            told = client.told()
            assert agent.proxy.counts().cuts >= cuts + 2, "the connection was not cut"
            if told != {"paused": True}:
                break
        assert told["hashes"] == [told["right"]] * 4
        assert told["sizes"] == [size, size]
        assert told["left"] == ["copy"]
        assert told["grown"] < FLAT
        assert _peak(agent.process.pid) - before < FLAT


def test_f5_a_download_goes_on_only_in_the_file_that_it_began(tmp_path: Path) -> None:
    body = f"""
await sandbox.files.write("/tmp/f", b"a" * (40 << 20))
stream = await sandbox.files.stream("/tmp/f")
first = await stream.__anext__()
pause()
await sandbox.files.write("/tmp/f", b"b" * (40 << 20))
seen = set(first)
try:
    async for chunk in stream:
        seen |= set(chunk)
except sandboxd.SandboxFileChangedError as error:
    tell(seen=sorted(seen), error=str(error))
local = {str(tmp_path / "copy")!r}
open(local, "wb").write(b"before")
"""
    with FaultyAgent() as agent, Client(agent, body) as client:
        client.paused()
        agent.proxy.cut()
        client.go_on()

        told = client.told()
        assert told["seen"] == [ord("a")]
        assert "/tmp/f" in told["error"]


@pytest.mark.parametrize("size", [0, 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 20 * MIB])
async def test_f1_every_kind_of_source_arrives_whole(
    sandbox: AsyncSandbox, tmp_path: Path, size: int
) -> None:
    data = random.Random(size).randbytes(size)
    local = tmp_path / "local"
    local.write_bytes(data)

    def pieces() -> list[bytes]:
        return [data[start : start + 700_001] for start in range(0, size, 700_001)]

    async def later() -> object:
        for piece in pieces():
            await asyncio.sleep(0)
            yield piece

    right = (size, reference.sha256sum(data))
    for source in (
        data,
        bytearray(data),
        memoryview(data),
        io.BytesIO(data),
        iter(pieces()),
        later(),
    ):
        written = await sandbox.files.write("/tmp/f", source)  # type: ignore[arg-type]  # (each of them is one)
        assert (written.size, written.sha256) == right, type(source)
        inside = (await sandbox.run("stat -c %s /tmp/f; sha256sum < /tmp/f")).stdout.split()
        assert (int(inside[0]), inside[1]) == right, type(source)
    written = await sandbox.files.upload(local, "/tmp/g")
    assert (written.size, written.sha256) == right
    copied = await sandbox.files.download("/tmp/g", tmp_path / "back")
    assert (copied.size, copied.sha256) == right
    assert (tmp_path / "back").read_bytes() == data
    assert sorted(each.name for each in tmp_path.iterdir()) == ["back", "local"]


def test_the_blocking_form_takes_files_and_iterables_and_no_asynchronous_ones(
    tmp_path: Path,
) -> None:
    async def later() -> object:
        yield b"x"

    with Sandbox() as sandbox:
        files = sandbox.files
        written = files.write("/tmp/f", (b"ab" for _ in range(3)))
        assert written.size == 6
        assert [bytes(chunk) for chunk in files.stream("/tmp/f", offset=-4)] == [b"abab"]
        files.download("/tmp/f", tmp_path / "f")
        assert files.upload(tmp_path / "f", "/tmp/g").sha256 == written.sha256
        with pytest.raises(InvalidArgumentError, match="AsyncSandbox"):
            files.write("/tmp/f", later())  # type: ignore[arg-type]  # (the point)
        with pytest.raises(InvalidArgumentError, match="data"):
            files.write("/tmp/f", 5)  # type: ignore[arg-type]  # (the point)
        with (tmp_path / "f").open() as text, pytest.raises(InvalidArgumentError, match="binary"):
            files.write("/tmp/f", text)
        assert files.read("/tmp/f") == b"ababab"


async def test_a_download_that_fails_leaves_the_local_file_as_it_was(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    local = tmp_path / "local"
    local.write_text("before")

    with pytest.raises(SandboxFileNotFoundError):
        await sandbox.files.download("/nope", local)

    assert local.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["local"]


async def test_a_download_replaces_no_device_pipe_or_directory_of_this_machine(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    await sandbox.files.write("/tmp/f", b"new")
    pipe, folder, link = tmp_path / "pipe", tmp_path / "folder", tmp_path / "link"
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to("/dev/null")

    for local in (pipe, folder, link):
        with pytest.raises(OSError, match=r"Not a regular file|Is a directory"):
            await sandbox.files.download("/tmp/f", local)

    assert (pipe.is_fifo(), folder.is_dir(), link.is_symlink()) == (True, True, True)
    assert len(list(tmp_path.iterdir())) == 3


async def test_an_offset_below_zero_counts_from_the_end(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("/tmp/f", bytes(range(200)))
    files = sandbox.files

    assert await files.read("/tmp/f", offset=-3) == bytes([197, 198, 199])
    assert await files.read("/tmp/f", offset=-3, length=2) == bytes([197, 198])
    assert await files.read("/tmp/f", offset=-500) == bytes(range(200))
    stream = await files.stream("/tmp/f", offset=-150, length=20)
    assert (stream.size, stream.offset) == (200, 50)
    assert b"".join([chunk async for chunk in stream]) == bytes(range(50, 70))
    assert (await sandbox.run("tail -c 3 /tmp/f | od -An -tu1")).stdout.split() == [
        "197",
        "198",
        "199",
    ]


async def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.files.write("/tmp/f", b"a" * MIB)
    stream = await sandbox.files.stream("/tmp/f")
    seen = await stream.__anext__()
    await sandbox.run("head -c 1000000 /dev/zero >> /tmp/f")

    async for chunk in stream:
        seen += chunk
    assert seen[:MIB] == b"a" * MIB
    assert len(seen) in (MIB, MIB + 1_000_000)


async def test_things_are_moved_in_one_step_and_over_others_only_when_told(
    sandbox: AsyncSandbox,
) -> None:
    files = sandbox.files
    await files.write("/tmp/a", "a")
    await files.write("/tmp/b", "b")

    with pytest.raises(SandboxFileExistsError):
        await files.move("/tmp/a", "/tmp/b")
    assert await files.read_text("/tmp/b") == "b"
    await files.move("/tmp/a", "/tmp/b", replace=True)
    assert (await sandbox.run("cat /tmp/b; ls /tmp")).stdout == "ab\n"
    assert await files.exists("/tmp/b")
    assert not await files.exists("/tmp/a")
    assert not await files.exists("/tmp/b/c")
    await files.mkdir("/tmp/d")
    await files.move("/tmp/d", "/tmp/e")
    assert [entry.name for entry in await files.list("/tmp", recursive=True)] == ["b", "e"]


async def test_f1_the_hash_is_of_what_takes_the_files_place_whatever_runs_beside(
    sandbox: AsyncSandbox,
) -> None:
    """A program tries to get at every new file before it has its name."""
    attack = """
import os, time
end = time.monotonic() + 60
while time.monotonic() < end:
    for name in os.listdir("/tmp/d"):
        if name != "f":
            try:
                with open(f"/tmp/d/{name}", "r+b", buffering=0) as file:
                    file.write(b"evil")
            except OSError:
                pass
"""
    await sandbox.files.write("/tmp/d/f", b"old")
    attacker = await sandbox.start(["python3", "-c", attack])
    try:
        for number in range(300):
            data = str(number).encode() * 5_000
            written = await sandbox.files.write("/tmp/d/f", data)
            assert written.sha256 == hashlib.sha256(data).hexdigest()
            # What the program wrote to is not open any more under another name than the last.
            found = await sandbox.files.read("/tmp/d/f")
            assert found in (data, b"evil" + data[4:])
    finally:
        await attacker.kill()


async def test_m8_a_file_write_counts_against_the_disk_limit() -> None:
    async with AsyncSandbox(limits=Limits(disk=32 * MIB)) as sandbox:
        await sandbox.files.write("/tmp/f", bytes(20 * MIB))
        used = (await sandbox.run("df --output=used -B1 /tmp | tail -1")).stdout
        assert 20 * MIB <= int(used) < 22 * MIB
