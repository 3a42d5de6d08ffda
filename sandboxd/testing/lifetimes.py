"""Leaks and clean-up.

Every sandbox has an owner and an end that its agent enforces; only real work counts as activity.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sandboxd import SandboxClosedError, SandboxError
from sandboxd.testing.check import Registry, expect, expect_equal, expect_raises

if TYPE_CHECKING:
    from sandboxd.testing.setup import Setup

registry = Registry()

DAY = 24 * 3600.0


@registry.check()
async def l4_a_claim_that_names_no_end_gets_one_and_says_when(setup: Setup) -> None:
    """A forgotten sandbox is gone in a day."""
    async with setup.sandbox(labels={"run": "l4"}) as sandbox:
        await sandbox.ready()
        info = await sandbox.info()
        lives = (info.expires_at - info.created_at).total_seconds()
        expect(0 < lives <= DAY, f"it expires after {lives} s")
        expect_equal("the labels", info.labels, {"run": "l4"})


@registry.check()
async def l4_a_lifetime_ends_a_sandbox_whatever_runs_in_it(setup: Setup) -> None:
    """The caller learns that it was the sandbox, not the program."""
    sandbox = setup.sandbox(ttl=1)
    outside = await setup.outside(sandbox)
    call = sandbox.run("sleep 30")
    await expect_raises(SandboxError, call)
    expect_equal("what is left", outside.left(), [])
    await sandbox.close()


@registry.check()
async def l6_a_release_ends_a_sandbox_in_every_state(setup: Setup) -> None:
    """Not bound yet, idle, running: gone each time, and a second release is no error."""
    unbound = setup.sandbox()
    await unbound.close()

    idle = setup.sandbox()
    outside = await setup.outside(idle)
    await idle.close()
    await idle.close()
    expect_equal("what is left of an idle one", outside.left(), [])

    busy = setup.sandbox()
    outside = await setup.outside(busy)
    running = asyncio.ensure_future(busy.run("sleep 60"))
    await asyncio.sleep(0.2)
    await busy.close()
    expect_equal("what is left of a busy one", outside.left(), [])
    await expect_raises(SandboxError, running)


@registry.check()
async def l6_leaving_the_block_by_an_exception_ends_the_sandbox(setup: Setup) -> None:
    """And the exception comes through."""
    outside = None
    try:
        async with setup.sandbox() as sandbox:
            outside = await setup.outside(sandbox)
            await sandbox.start("sleep 60")
            raise KeyError  # noqa: TRY301  (the caller's own failure is what is tried)
    except KeyError:
        pass
    expect(outside is not None, "no sandbox was made")
    if outside is not None:
        expect_equal("what is left", outside.left(), [])


@registry.check()
async def l6_a_closed_sandbox_refuses_every_call_by_name(setup: Setup) -> None:
    """Use after close is a mistake of the caller, not a loss."""
    sandbox = setup.sandbox()
    await sandbox.ready()
    await sandbox.close()
    await expect_raises(SandboxClosedError, sandbox.run("true"))
    await expect_raises(SandboxClosedError, sandbox.start("true"))
    await expect_raises(SandboxClosedError, sandbox.files.read("/etc/passwd"))


@registry.check(seconds=60)
async def l9_an_idle_timeout_spares_a_silent_command_and_starts_at_its_exit(setup: Setup) -> None:
    """A running exec is activity, whether it says something or not."""
    sandbox = setup.sandbox(idle_timeout=1)
    outside = await setup.outside(sandbox)
    result = await sandbox.run("sleep 3; echo done")
    expect_equal("stdout", result.stdout, "done\n")
    left = await sandbox.start("sleep 60")
    await left.kill()
    await asyncio.sleep(2.5)
    await expect_raises(SandboxError, sandbox.run("true"))
    expect_equal("what is left", outside.left(), [])
    await sandbox.close()


@registry.check(seconds=60)
async def z5_what_an_unbound_handle_is_asked_takes_effect_in_that_order(setup: Setup) -> None:
    """Asked at once, from tasks that do not wait for each other; the file is large."""
    content = bytes(range(256)) * 32_768
    for _ in range(10):
        async with setup.sandbox(env={"WHO": "claim"}) as sandbox:
            made, written, first, read, last = await asyncio.gather(
                sandbox.files.mkdir("/tmp/new/folder", parents=True),
                sandbox.files.write("/tmp/new/folder/f", content),
                sandbox.run("wc -c < /tmp/new/folder/f; echo $WHO"),
                sandbox.files.read("/tmp/new/folder/f"),
                sandbox.run("cat /tmp/new/folder/f | wc -c"),
            )
            size = len(content)
            expect_equal("what the first two gave", (made, written.size), (None, size))
            expect_equal("what the first command saw", first.stdout, f"{size}\nclaim\n")
            expect(read == content, "the file was not read whole")
            expect_equal("what the last command saw", last.stdout, f"{size}\n")


@registry.check()
async def z5_a_command_does_not_wait_for_the_end_of_one_that_was_asked_before(
    setup: Setup,
) -> None:
    """Commands of an unbound handle start in order, and run side by side."""
    async with setup.sandbox() as sandbox:
        long = asyncio.ensure_future(sandbox.run("while [ ! -e /tmp/go ]; do sleep .05; done"))
        await asyncio.sleep(0)
        await asyncio.wait_for(sandbox.run("touch /tmp/go"), 10)
        expect_equal("how the first ended", (await long).exit_code, 0)
