"""Attacks on the file calls: the agent resolves paths that the sandbox has prepared."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import secrets
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox, SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator


READ_LIMIT = 5.0
"""Seconds after which a read of a file without an end or a writer counts as hanging."""


@pytest.fixture
def bait() -> Iterator[Path]:
    """A folder of the machine, that file calls could write to if they were led out."""
    folder = Path("/tmp", f"bait-{secrets.token_hex(8)}")
    folder.mkdir()
    folder.joinpath("secret").write_text("secret")
    yield folder
    names = sorted(each.name for each in folder.iterdir())
    folder.joinpath("secret").unlink(missing_ok=True)
    for name in names:
        folder.joinpath(name).unlink(missing_ok=True)
    folder.rmdir()
    assert names == ["secret"], f"written outside the sandbox: {names}"


def _archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("new"))
    return file.getvalue()


_ARCHIVE = _archive()

LINKS = [
    "/tmp/{name}",
    "../../../../../../tmp/{name}",
    "/proc/1/root/tmp/{name}",
    "/proc/self/root/tmp/{name}",
    "/proc/self/cwd/../../../tmp/{name}",
    "/proc/thread-self/root/tmp/{name}",
    "/dev/fd/0/../../../tmp/{name}",
]


@pytest.mark.parametrize("link", LINKS)
async def test_a_symlink_out_of_the_sandbox_leads_nowhere(
    sandbox: AsyncSandbox, bait: Path, link: str
) -> None:
    target = link.format(name=bait.name)
    await sandbox.run(f"ln -s {target} /tmp/link; echo own > /tmp/own")
    files = sandbox.files

    with contextlib.suppress(SandboxError):
        assert await files.read("/tmp/link/secret") != b"secret"
    with contextlib.suppress(SandboxError):
        archive = await files.read_archive("/tmp/link")
        assert b"secret\0" not in b"".join([chunk async for chunk in archive])
    for call in (
        files.write("/tmp/link/new", "x"),
        files.mkdir("/tmp/link/dir"),
        files.remove("/tmp/link/secret"),
        files.remove("/tmp/link", recursive=True),
        files.list("/tmp/link"),
        files.list("/tmp/link", recursive=True),
        files.move("/tmp/link/secret", "/tmp/stolen"),
        files.move("/tmp/own", "/tmp/link/new"),
        files.write_archive("/tmp/link", _ARCHIVE),
        files.watch("/tmp/link/secret"),
    ):
        with contextlib.suppress(SandboxError):
            await call

    assert bait.joinpath("secret").read_text() == "secret"


PROC = [
    "/proc/self/environ",
    "/proc/self/root/etc/shadow",
    "/proc/self/mem",
    "/proc/self/fd/0",
    "/proc/thread-self/environ",
    "/proc/1/environ",
    "/proc/1/root/etc/shadow",
    "/proc/1/mem",
]


@pytest.mark.parametrize("path", PROC)
async def test_the_agents_own_view_of_proc_is_not_lent_to_the_sandbox(
    sandbox: AsyncSandbox, path: str
) -> None:
    """The agent is stronger than anyone inside: `self` must not be the agent, nor init open."""
    data = b""
    with contextlib.suppress(SandboxError):
        data = await asyncio.wait_for(sandbox.files.read(path, length=4096), READ_LIMIT)

    for call in (
        sandbox.files.read_archive(path),
        sandbox.files.watch(path),
        sandbox.files.move(path, "/tmp/moved"),
        sandbox.files.write_archive("/proc/self/cwd/tmp", _ARCHIVE),
    ):
        with pytest.raises(SandboxError):
            await asyncio.wait_for(call, READ_LIMIT)
    assert b"SANDBOXD" not in data
    assert b"PATH=" not in data
    assert b"root:" not in data


@pytest.mark.timeout(120)
async def test_a_symlink_that_is_swapped_during_calls_never_leads_out(
    sandbox: AsyncSandbox, bait: Path
) -> None:
    """Between a look and an open there is no moment in which the path may change its meaning."""
    # Exchanged in one step: at every moment the path is there, as a folder or as the link.
    swap = """
import ctypes, os, sys
os.mkdir("/tmp/d")
open("/tmp/d/secret", "w").write("inside")
os.symlink(sys.argv[1], "/tmp/evil")
libc = ctypes.CDLL(None, use_errno=True)
HERE, EXCHANGE = -100, 2
print("go", flush=True)
while libc.renameat2(HERE, b"/tmp/d", HERE, b"/tmp/evil", EXCHANGE) == 0:
    pass
raise OSError(ctypes.get_errno(), "renameat2")
"""
    target = f"../../../../../..{bait}"
    swapper = await sandbox.start(["python3", "-c", swap, target])
    assert (await swapper.__aiter__().__anext__()).data == b"go\n"

    reached = 0
    until = time.monotonic() + 20
    for number in itertools.count():
        if number >= 300 and (reached or time.monotonic() > until):
            break
        with contextlib.suppress(SandboxError):
            assert await sandbox.files.read("/tmp/d/secret") == b"inside"
            reached += 1
        for call in (
            sandbox.files.write(f"/tmp/d/new{number % 3}", "x"),
            sandbox.files.mkdir("/tmp/d/dir"),
            sandbox.files.remove("/tmp/d/secret2"),
        ):
            with contextlib.suppress(SandboxError):
                await call
    await swapper.kill()
    assert (await swapper.wait()).cause == "canceled", "the swapping stopped by itself"

    assert reached, "no call ever met the folder: the race was not run"
    assert bait.joinpath("secret").read_text() == "secret"


async def test_a_recursive_removal_does_not_follow_a_link_that_is_swapped_in(
    sandbox: AsyncSandbox, bait: Path
) -> None:
    await sandbox.run(
        f"mkdir -p /tmp/t/a/b; ln -s ../../..{bait} /tmp/t/a/link; ln -s / /tmp/t/root"
    )

    await sandbox.files.remove("/tmp/t", recursive=True)

    assert bait.joinpath("secret").exists()
    assert (await sandbox.run("test -e /tmp/t; echo $?; ls /usr/bin | head -1")).stdout[0] == "1"


@pytest.mark.parametrize(
    "path", ["/tmp/fifo", "/tmp/socket", "/dev/zero", "/dev/random", "/dev/tty", "/dev/ptmx"]
)
async def test_a_pipe_or_device_in_place_of_a_file_does_not_hang_the_agent(
    sandbox: AsyncSandbox, path: str
) -> None:
    bind = "import socket; socket.socket(socket.AF_UNIX).bind('/tmp/socket')"
    await sandbox.run(f'mkfifo /tmp/fifo; python3 -c "{bind}"')

    with pytest.raises(SandboxError):
        await asyncio.wait_for(sandbox.files.read(path), READ_LIMIT)
    with contextlib.suppress(SandboxError):
        # Replacing it by a file is right, refusing is too; waiting for a reader is not.
        await asyncio.wait_for(sandbox.files.write(path, "x"), READ_LIMIT)
        await asyncio.wait_for(sandbox.files.move(path, "/tmp/moved", replace=True), READ_LIMIT)
    with pytest.raises(SandboxError):
        await asyncio.wait_for(sandbox.files.read_archive(path), READ_LIMIT)
    assert (await sandbox.run("echo on")).stdout == "on\n"


async def test_an_archive_of_pipes_and_sockets_hangs_nobody(sandbox: AsyncSandbox) -> None:
    bind = "import socket; socket.socket(socket.AF_UNIX).bind('/tmp/t/socket')"
    await sandbox.run(f'mkdir /tmp/t; mkfifo /tmp/t/pipe; python3 -c "{bind}"; touch /tmp/t/file')

    archive = await asyncio.wait_for(sandbox.files.read_archive("/tmp/t"), READ_LIMIT)
    async for _ in archive:
        pass

    assert (archive.entries, archive.skipped) == (3, 1)


async def test_a_fifo_on_the_way_and_a_link_to_itself_do_not_hang_the_agent(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.run("mkfifo /tmp/fifo; ln -s loop /tmp/loop; ln -s a /tmp/b; ln -s b /tmp/a")

    for path in ("/tmp/fifo/x", "/tmp/loop", "/tmp/a/x"):
        for call in (sandbox.files.read(path), sandbox.files.stat(path), sandbox.files.list(path)):
            with pytest.raises(SandboxError):
                await asyncio.wait_for(call, READ_LIMIT)


async def test_a_file_that_seems_huge_does_not_fill_anybodys_memory(
    sandbox: AsyncSandbox,
) -> None:
    """A sparse file says any size; a range of it costs a range."""
    await sandbox.run("truncate -s 8T /tmp/sparse")

    assert await sandbox.files.read("/tmp/sparse", offset=1 << 40, length=1000) == bytes(1000)
    assert (await sandbox.files.stat("/tmp/sparse")).size == 8 << 40


async def test_a_folder_with_very_many_names_is_an_answer_or_an_error(
    sandbox: AsyncSandbox,
) -> None:
    made = "mkdir /tmp/many; cd /tmp/many; seq 1 50000 | xargs touch"
    assert (await sandbox.run(made)).ok

    with contextlib.suppress(SandboxError):
        assert len(await asyncio.wait_for(sandbox.files.list("/tmp/many"), 20)) == 50_000
    assert (await sandbox.run("echo on")).stdout == "on\n"


async def _all_of(sandbox: AsyncSandbox, path: str) -> int:
    archive = await sandbox.files.read_archive(path)
    return sum([len(chunk) async for chunk in archive])


async def test_a_wide_tree_that_changes_all_the_time_can_be_archived_listed_and_watched(
    sandbox: AsyncSandbox,
) -> None:
    churn = """
import itertools, os, shutil
for n in itertools.count():
    folder = f"/tmp/t/{n % 50}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder + "/a/b", exist_ok=True)
    for name in range(20):
        with open(f"{folder}/a/{name}", "w") as file:
            file.write("x" * 5000)
    os.truncate(f"{folder}/a/1", 10)
    if n == 60:
        print("go", flush=True)
"""
    churner = await sandbox.start(["python3", "-c", churn])
    assert (await churner.__aiter__().__anext__()).data == b"go\n"

    watch = await sandbox.files.watch("/tmp/t", recursive=True)
    seen = 0
    for _ in range(10):
        with contextlib.suppress(SandboxError):
            await asyncio.wait_for(_all_of(sandbox, "/tmp/t"), READ_LIMIT)
        with contextlib.suppress(SandboxError):
            await asyncio.wait_for(sandbox.files.list("/tmp/t", recursive=True), READ_LIMIT)
        async for _event in watch:
            seen += 1
            if seen % 500 == 0:
                break
    await watch.close()
    await churner.kill()

    assert seen == 5_000
    assert await _all_of(sandbox, "/tmp/t") > 0


async def test_removing_a_very_deep_tree_does_not_exhaust_the_agent(
    sandbox: AsyncSandbox,
) -> None:
    """A tree deeper than any path is long; the agent has one stack."""
    deep = """
import os
os.mkdir("/tmp/deep"); os.chdir("/tmp/deep")
for _ in range(5000):
    os.mkdir("d"); os.chdir("d")
"""
    assert (await sandbox.run(["python3", "-c", deep])).ok

    for call in (
        _all_of(sandbox, "/tmp/deep"),
        sandbox.files.list("/tmp/deep", recursive=True),
        sandbox.files.watch("/tmp/deep", recursive=True),
        sandbox.files.remove("/tmp/deep", recursive=True),
    ):
        with contextlib.suppress(SandboxError):
            await asyncio.wait_for(call, 20)
    async with AsyncSandbox() as other:
        assert (await other.run("echo on")).stdout == "on\n"
