"""Stdin, and calls that end.

Every call ends, with an answer or with a typed error; nobody waits for an end of file that
nobody sends.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from sandboxd.testing.check import Registry, at_once, expect, expect_equal

if TYPE_CHECKING:
    from sandboxd.testing.setup import Setup

registry = Registry()


@registry.check()
async def h8_stdin_that_nobody_asked_for_is_the_null_device(setup: Setup) -> None:
    """A command that reads it sees the end at once instead of hanging."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run("cat > /tmp/f.py", timeout=30)
        expect_equal("exit code and cause", (result.exit_code, result.cause), (0, "exited"))
        expect_equal("the file", await sandbox.files.read("/tmp/f.py"), b"")


@registry.check()
async def h9_stdin_can_be_ended_and_the_program_answers(setup: Setup) -> None:
    """There is a way to say end of file."""
    async with setup.sandbox() as sandbox:
        process = await sandbox.start("cat", stdin=True)
        await process.write_stdin(b"x\n")
        await process.close_stdin()
        result = await process.wait()
        expect_equal("exit code and stdout", (result.exit_code, result.stdout_bytes), (0, b"x\n"))


@registry.check()
async def h9_stdin_larger_than_any_pipe_arrives_whole_while_output_is_read(setup: Setup) -> None:
    """Back-pressure in one direction does not lock up the other."""
    data = bytes(range(256)) * 8192
    async with setup.sandbox() as sandbox:
        process = await sandbox.start("sha256sum; echo over >&2", stdin=True)
        for start in range(0, len(data), 65_536):
            await process.write_stdin(data[start : start + 65_536])
        await process.close_stdin()
        result = await process.wait()
        expect_equal("the hash", result.stdout[:64], hashlib.sha256(data).hexdigest())
        expect_equal("stderr", result.stderr_bytes, b"over\n")


@registry.check()
async def h9_writing_to_a_program_that_ended_is_an_answer_and_not_a_hang(setup: Setup) -> None:
    """A program need not read what it is sent."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run("exit 3", stdin=bytes(1 << 20))
        expect_equal("exit code and cause", (result.exit_code, result.cause), (3, "exited"))


@registry.check()
async def h11_output_that_comes_slowly_is_whole_and_the_exit_code_is_the_last(
    setup: Setup,
) -> None:
    """Success is not reported after the first flush."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run("for i in 1 2 3; do echo $i; sleep 1; done; exit 4")
        expect_equal(
            "stdout and exit code", (result.stdout_bytes, result.exit_code), (b"1\n2\n3\n", 4)
        )


@registry.check()
async def h13_control_calls_are_answered_while_bulk_output_waits_for_its_reader(
    setup: Setup,
) -> None:
    """A gibibyte on its way delays no other call on the same connection."""
    async with setup.sandbox() as sandbox:
        bulk = await sandbox.start("head -c 1G /dev/zero")
        await bulk.__anext__()
        for _ in range(5):
            started = time.monotonic()
            expect(await bulk.send_signal("CONT"), "the bulk process has ended unread")
            await sandbox.info()
            took = time.monotonic() - started
            expect(took <= 2 * setup.grace, f"two calls took {took:.2f} s")
            await bulk.__anext__()
        await bulk.kill()


@registry.check()
async def h11_many_commands_at_once_do_not_mix(setup: Setup) -> None:
    """Each call gets its own answer."""
    async with setup.sandbox() as sandbox:

        async def one(number: int) -> tuple[str, int | None]:
            result = await sandbox.run(f"echo {number}; exit {number % 200}")
            return result.stdout, result.exit_code

        seen = await at_once(500, 50, one)
        expect_equal("the answers", seen, [(f"{n}\n", n % 200) for n in range(500)])
