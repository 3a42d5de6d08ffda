"""Attacks on the file calls: the agent resolves paths that the sandbox has prepared."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
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
    await sandbox.run(["ln", "-s", target, "/tmp/link"])
    files = sandbox.files

    with contextlib.suppress(SandboxError):
        assert await files.read("/tmp/link/secret") != b"secret"
    for call in (
        files.write("/tmp/link/new", "x"),
        files.mkdir("/tmp/link/dir"),
        files.remove("/tmp/link/secret"),
        files.remove("/tmp/link", recursive=True),
        files.list("/tmp/link"),
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
    assert (await sandbox.run("echo on")).stdout == "on\n"


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

    with contextlib.suppress(SandboxError):
        await asyncio.wait_for(sandbox.files.remove("/tmp/deep", recursive=True), 20)
    async with AsyncSandbox() as other:
        assert (await other.run("echo on")).stdout == "on\n"
