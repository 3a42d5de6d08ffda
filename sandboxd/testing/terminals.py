"""Terminals.

A terminal is an exec like any other: the same limits, causes and offsets, and the same ends.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from sandboxd import InvalidArgumentError, Pty
from sandboxd.testing.check import Registry, at_once, expect, expect_equal, expect_raises
from sandboxd.testing.timeouts import TREES

if TYPE_CHECKING:
    from sandboxd import AsyncProcess
    from sandboxd.testing.setup import Setup

registry = Registry()

DEADLINE = 2.0


async def _read_until(process: AsyncProcess, wanted: bytes) -> bytes:
    seen = b""
    async for output in process:
        seen += output.data
        if wanted in seen:
            break
    return seen


@registry.check()
async def n_a_terminal_is_the_sandboxs_own_and_has_a_name_an_owner_and_a_size(
    setup: Setup,
) -> None:
    """Programs ask all of that of a terminal, and behave as in a pipe if one answer is wrong."""
    script = """
import fcntl, os, struct, sys, termios
name = os.ttyname(0)
same = all(os.fstat(each).st_rdev == os.stat(name).st_rdev for each in (0, 1, 2))
rows, columns = struct.unpack("HHHH", fcntl.ioctl(1, termios.TIOCGWINSZ, bytes(8)))[:2]
controlling = os.open("/dev/tty", os.O_RDWR)
print(name.startswith("/dev/pts/"), same, rows, columns, os.getsid(0) == os.getpid(),
      os.tcgetpgrp(controlling) == os.getpgrp(), os.stat(name).st_uid == os.getuid(),
      os.environ["TERM"], sys.stdout.encoding)
"""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run(["python3", "-c", script], pty=Pty(30, 100), timeout=20)
        promised = "True True 30 100 True True True xterm-256color utf-8\r\n"
        expect_equal("what a program finds", result.stdout, promised)
        expect_equal("stderr", result.stderr_bytes, b"")
        kept = await sandbox.run("echo $TERM", pty=True, env={"TERM": "vt100"}, timeout=20)
        expect_equal("a TERM that was given", kept.stdout, "vt100\r\n")


@registry.check()
async def n_all_output_of_a_terminal_arrives_before_its_exit(setup: Setup) -> None:
    """A terminal holds little, and the last of it must not be lost when the program exits."""
    promised = b"".join(b"%d\r\n" % number for number in range(1, 20_001))
    async with setup.sandbox() as sandbox:

        async def one(_: int) -> bytes:
            result = await sandbox.run("seq 1 20000; exit 4", pty=True, timeout=60)
            expect_equal("exit code and cause", (result.exit_code, result.cause), (4, "exited"))
            return result.stdout_bytes

        for seen in await at_once(20, 4, one):
            expect_equal("the output", seen, promised)


@registry.check()
async def x7_an_exec_with_a_terminal_has_the_environment_of_any_other(setup: Setup) -> None:
    """The same variables, and the same precedence."""
    line = "echo $PATH; echo $A; echo $B; pwd; id -u"
    async with setup.sandbox(env={"A": "claim", "B": "claim"}, cwd="/usr") as sandbox:
        plain = await sandbox.run(line, env={"B": "exec"})
        seen = await sandbox.run(line, env={"B": "exec"}, pty=True, timeout=20)
        expect_equal("the environment", seen.stdout.replace("\r\n", "\n"), plain.stdout)


@registry.check()
async def t5_every_shape_of_tree_on_a_terminal_ends_at_its_deadline(setup: Setup) -> None:
    """Jobs in sessions of their own too."""
    trees = (*TREES, "setsid sleep 20 & sleep 20", "set -m; sleep 20 & (sleep 20) & sleep 20")

    async def one(number: int) -> None:
        async with setup.sandbox() as sandbox:
            outside = await setup.outside(sandbox)
            started = time.monotonic()
            result = await sandbox.run(["bash", "-c", trees[number]], timeout=DEADLINE, pty=True)
            took, left = time.monotonic() - started, outside.left()
            expect_equal(f"the cause of {trees[number]!r}", result.cause, "timeout")
            expect(
                DEADLINE <= took <= DEADLINE + setup.grace,
                f"{trees[number]!r} returned after {took:.2f} s",
            )
            expect_equal(f"what is left of {trees[number]!r}", left, [])

    await at_once(len(trees), len(trees), one)


@registry.check()
async def t12_what_was_said_on_a_terminal_before_a_deadline_is_delivered(setup: Setup) -> None:
    """Both streams are one."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run("echo a; echo b >&2; sleep 9", timeout=1, pty=True)
        expect_equal(
            "stdout, stderr and cause",
            (result.stdout_bytes, result.stderr_bytes, result.cause),
            (b"a\r\nb\r\n", b"", "timeout"),
        )


@registry.check()
async def h9_an_end_of_file_is_typed_at_a_terminal(setup: Setup) -> None:
    """Also in the middle of a line, and for a run, which can write nothing later."""
    async with setup.sandbox() as sandbox:
        for data, seen in ((b"a\n", b"a\n"), (b"a", b"a"), (b"", b"")):
            process = await sandbox.start("stty -echo; cat; echo end", pty=True, timeout=20)
            # Echo is off when nothing more is written before it.
            await asyncio.sleep(0.5)
            await process.write_stdin(data)
            await process.close_stdin()
            result = await process.wait()
            promised = (seen + b"end\n").replace(b"\n", b"\r\n")
            expect_equal(f"the output after {data!r}", result.stdout_bytes, promised)
        result = await sandbox.run("cat | wc -c", pty=True, stdin=b"four", timeout=20)
        expect_equal("the last line", result.stdout.splitlines()[-1][-1:], "4")
        result = await sandbox.run("cat", pty=True, timeout=20)
        expect_equal("the cause without stdin", (result.cause, result.stdout), ("exited", ""))


@registry.check()
async def n_a_terminal_can_be_resized_and_nothing_else_can(setup: Setup) -> None:
    """The program hears of it; an exec without a terminal, or with a wrong size, is an error."""
    async with setup.sandbox() as sandbox:
        line = "trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.05; done"
        process = await sandbox.start(line, pty=True, timeout=20)
        seen = await _read_until(process, b"ready\r\n")
        expect_equal("the first size", seen, b"24 80\r\nready\r\n")
        expect(await process.resize(40, 132), "a running exec was not resized")
        expect_equal("the new size", await _read_until(process, b"\r\n"), b"40 132\r\n")
        await expect_raises(InvalidArgumentError, process.resize(0, 80), names="rows")
        await process.kill()
        await process.wait()
        expect(not await process.resize(1, 1), "an exec that has ended was resized")
        plain = await sandbox.start("sleep 5")
        await expect_raises(InvalidArgumentError, plain.resize(24, 80), names="pty")
        await plain.kill()


@registry.check()
async def n_what_is_typed_is_echoed_and_control_keys_are_signals(setup: Setup) -> None:
    """As at every terminal: Ctrl-C reaches the foreground."""
    async with setup.sandbox() as sandbox:
        process = await sandbox.start(
            "trap 'echo caught; exit 5' INT; read x; echo $x; cat", pty=True
        )
        await process.write_stdin("é1\n")
        seen = await _read_until(process, "é1\r\né1\r\n".encode())
        expect_equal("echo and output", seen, "é1\r\né1\r\n".encode())
        # A shell that is just starting a program may swallow it.
        await asyncio.sleep(0.5)
        await process.write_stdin(b"\x03")
        result = await process.wait()
        expect_equal("the exit code", result.exit_code, 5)
        expect(b"caught" in result.stdout_bytes, "the trap has not spoken")


@registry.check()
async def n_a_terminal_is_attached_to_again_with_all_that_it_said(setup: Setup) -> None:
    """While it runs and after its end, by the offsets of any other output."""
    async with setup.sandbox() as sandbox:
        line = "echo one; read x; echo two $x"
        first = await sandbox.start(line, pty=True, exec_id="again")
        seen = await _read_until(first, b"one\r\n")
        second = await sandbox.start(line, pty=True, exec_id="again")
        expect_equal("what the second reader gets", await _read_until(second, b"\n"), seen)
        await first.write_stdin(b"in\n")
        rest = (await first.wait()).stdout_bytes
        promised = b"in\r\ntwo in\r\n"
        expect_equal("the rest", rest, promised)
        third = await sandbox.start(line, pty=True, exec_id="again")
        whole = await third.wait()
        expect_equal("the whole", (whole.stdout_bytes, whole.exit_code), (seen + promised, 0))
