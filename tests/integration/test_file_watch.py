"""Changes are told as they happen, whoever makes them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox, Sandbox, SandboxClosedError, SandboxFileNotFoundError
from tests.support.faulty_agent import Client, FaultyAgent

if TYPE_CHECKING:
    from sandboxd import AsyncFileWatch, FileEvent


async def _until(watch: AsyncFileWatch, kind: str, path: str) -> list[FileEvent]:
    """The events up to one, that must come."""
    seen: list[FileEvent] = []
    async for event in watch:
        seen.append(event)
        if (event.kind, event.path) == (kind, path):
            return seen
    raise AssertionError(f"{kind} of {path} did not come: {seen}")


@pytest.mark.timeout(30)
async def test_what_programs_and_file_calls_change_is_told(sandbox: AsyncSandbox) -> None:
    await sandbox.run("mkdir /tmp/t; echo 1 > /tmp/t/old")
    watch = await sandbox.files.watch("/tmp/t")

    await sandbox.run(
        "cd /tmp/t; echo 2 >> old; echo 3 > new; mv new newer; rm old; chmod 600 newer"
    )
    seen = [(e.kind, e.path) for e in await _until(watch, "attributes", "newer")]
    expected = [
        ("modified", "old"),
        ("closed", "old"),
        ("created", "new"),
        ("modified", "new"),
        ("closed", "new"),
        ("moved_from", "new"),
        ("moved_to", "newer"),
        ("deleted", "old"),
        ("attributes", "newer"),
    ]
    assert seen == expected

    await sandbox.files.write("/tmp/t/file", "x")
    assert [(e.kind, e.path) for e in await _until(watch, "created", "file")] == [
        ("created", "file")
    ]
    await sandbox.files.write("/tmp/t/file", "y")
    await _until(watch, "moved_to", "file")
    await sandbox.files.mkdir("/tmp/t/d")
    (made,) = await _until(watch, "created", "d")
    assert made.is_directory
    # Not below it.
    await sandbox.run("echo > /tmp/t/d/f; touch /tmp/t/end")
    assert all("d/" not in each.path for each in await _until(watch, "created", "end"))


@pytest.mark.timeout(30)
async def test_a_rename_is_told_with_both_names(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("/tmp/t/a", "x")
    watch = await sandbox.files.watch("/tmp/t", recursive=True)

    await sandbox.files.move("/tmp/t/a", "/tmp/t/b")

    old, new = await _until(watch, "moved_to", "b")
    assert (old.kind, old.path) == ("moved_from", "a")
    assert old.cookie == new.cookie != 0


@pytest.mark.timeout(30)
async def test_directories_that_are_made_and_moved_later_are_watched_too(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.run("mkdir -p /tmp/t/a/b")
    watch = await sandbox.files.watch("/tmp/t", recursive=True)

    # What was in it before its watch was there is told as well.
    await sandbox.run("mkdir -p /tmp/t/n/m; echo > /tmp/t/n/m/f")
    await _until(watch, "created", "n/m/f")
    await sandbox.run("echo >> /tmp/t/a/b/x")
    await _until(watch, "closed", "a/b/x")
    await sandbox.run("mv /tmp/t/a /tmp/t/moved; echo > /tmp/t/moved/b/y")
    await _until(watch, "closed", "moved/b/y")
    # Not what has left.
    await sandbox.run("mv /tmp/t/moved /tmp/away; echo > /tmp/away/b/z; touch /tmp/t/end")
    assert all("/z" not in each.path for each in await _until(watch, "closed", "end"))


@pytest.mark.timeout(60)
async def test_a_reader_that_is_too_slow_is_told_so(sandbox: AsyncSandbox) -> None:
    await sandbox.run("mkdir /tmp/t")
    watch = await sandbox.files.watch("/tmp/t")

    await sandbox.run("cd /tmp/t; for n in $(seq 40000); do : > f$n; done")
    seen = await _until(watch, "overflow", "")

    assert len(seen) > 1_000
    await sandbox.run("touch /tmp/t/after")
    await _until(watch, "created", "after")


@pytest.mark.timeout(30)
async def test_the_end_of_what_is_watched_ends_the_watch(sandbox: AsyncSandbox) -> None:
    await sandbox.run("mkdir /tmp/t; touch /tmp/f")
    folder = await sandbox.files.watch("/tmp/t", recursive=True)
    file = await sandbox.files.watch("/tmp/f")

    await sandbox.run("rmdir /tmp/t; echo x > /tmp/f; rm /tmp/f")

    assert [event.kind async for event in folder][-1] == "gone"
    kinds = [event.kind async for event in file]
    assert "modified" in kinds
    assert kinds[-1] == "gone"
    with pytest.raises(SandboxFileNotFoundError):
        await sandbox.files.watch("/tmp/t")


@pytest.mark.timeout(30)
async def test_the_end_of_the_sandbox_is_an_error_of_the_watch() -> None:
    sandbox = AsyncSandbox()
    watch = await sandbox.files.watch("/tmp")
    waiting = asyncio.ensure_future(watch.__anext__())
    await asyncio.sleep(0.1)

    await sandbox.close()

    with pytest.raises(SandboxClosedError):
        await waiting


def test_the_blocking_form_watches_too() -> None:
    with Sandbox() as sandbox:
        with_changes = sandbox.files.watch("/tmp")
        sandbox.run("touch /tmp/f")
        assert (next(with_changes).kind, next(with_changes).kind) == ("created", "attributes")
        with_changes.close()


@pytest.mark.timeout(60)
def test_a_broken_connection_is_an_overflow_and_the_watch_goes_on() -> None:
    body = """
watch = await sandbox.files.watch("/tmp")
pause()
kinds = [(await watch.__anext__()).kind]
await sandbox.run("mkdir /tmp/d")
kinds.append((await watch.__anext__()).kind)
tell(kinds=kinds)
"""
    with FaultyAgent() as agent, Client(agent, body) as client:
        client.paused()
        agent.proxy.cut()
        client.go_on()

        assert client.told() == {"kinds": ["overflow", "created"]}
