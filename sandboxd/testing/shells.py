"""Shells that keep their state.

A command has the status and the output that are its own, whatever it prints and whatever became of
the shell; what the shell has lost is said.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING

from sandboxd import InvalidArgumentError, PatternNotFoundError
from sandboxd.testing.check import Registry, expect, expect_equal, expect_raises, expect_soon

if TYPE_CHECKING:
    from sandboxd import AsyncShell
    from sandboxd.testing.setup import Setup

registry = Registry()


async def _expect(shell: AsyncShell, line: str, code: int | None, output: str) -> None:
    result = await shell.run(line, timeout=20)
    seen = (result.exit_code, result.output.replace("\r\n", "\n"))
    expect_equal(f"exit code and output of {line!r}", seen, (code, output))


@registry.check()
async def n_a_shell_keeps_directory_variables_functions_and_status(setup: Setup) -> None:
    """With a terminal and without."""
    async with setup.sandbox() as sandbox:
        for pty in (False, True):
            async with sandbox.shell(pty=pty, env={"GIVEN": "7"}, cwd="/usr") as shell:
                await _expect(shell, "pwd; echo $GIVEN", 0, "/usr\n7\n")
                await _expect(shell, "cd /tmp; x='a  b'; greet() { echo hi $1; }", 0, "")
                await _expect(
                    shell, 'export Y=2; greet you; echo "$x"; pwd', 0, "hi you\na  b\n/tmp\n"
                )
                await _expect(shell, "env | grep ^Y=; (exit 9)", 9, "Y=2\n")
                await _expect(shell, "echo $?", 0, "9\n")
                await _expect(shell, "printf 'no newline'; echo err >&2", 0, "no newlineerr\n")
                await _expect(shell, 'echo "it\'s"\ncat <<EOF\n$x\nEOF', 0, "it's\na  b\n")
                await _expect(shell, "sleep 30 & kill $!; wait $!", 143, "")


@registry.check()
async def n_a_shell_survives_what_does_not_end_it(setup: Setup) -> None:
    """Syntax errors, loop words out of place, traps, options and redirections."""
    async with setup.sandbox() as sandbox, sandbox.shell() as shell:
        await _expect(shell, "x=1", 0, "")
        for line, code in (("if", 2), ("(", 2), ("'", 2), ("break", 0), ("continue", 0)):
            result = await shell.run(line, timeout=20)
            seen = (result.exit_code, result.ended)
            expect_equal(f"the end of {line!r}", seen, (code, False))
        await _expect(shell, "read line; echo $?; cat", 0, "1\n")
        await _expect(shell, "trap 'echo caught' USR1; kill -USR1 $$", 0, "caught\n")
        await _expect(shell, "set -x", 0, "")
        await _expect(shell, "echo $x", 0, "++ echo 1\n1\n")
        await _expect(shell, "set +x", 0, "++ set +x\n")
        await _expect(shell, "set -uf; echo $x", 0, "1\n")
        await _expect(shell, "exec 2>/dev/null; nonsense", 127, "")
        await _expect(shell, "echo $x", 0, "1\n")


@registry.check()
async def n_the_end_of_a_shell_is_told_and_the_next_command_has_a_new_one(setup: Setup) -> None:
    """State that is lost is never lost in silence."""
    ends = {
        "exit 3": ("exited", 3, None),
        "exec sh -c 'exit 4'": ("exited", 4, None),
        "set -e; false; echo no": ("exited", 1, None),
        "kill -9 $$": ("signaled", None, 9),
    }
    async with setup.sandbox() as sandbox, sandbox.shell() as shell:
        for line, promised in ends.items():
            await shell.run("cd /tmp; x=1")
            result = await shell.run(line, timeout=20)
            seen = (result.cause, result.exit_code, result.signal)
            expect_equal(f"the end by {line!r}", (seen, result.ended), (promised, True))
            await _expect(shell, "echo new$x", 0, "new\n")


@registry.check()
async def n_a_timeout_ends_the_command_and_spares_the_shell(setup: Setup) -> None:
    """Programs that do not mind an interrupt too."""
    deaf = "python3 -c 'import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(60)'"
    lines = ("sleep 60", "while :; do :; done", "sleep 60 | cat", deaf, f"({deaf}); sleep 60")
    async with setup.sandbox() as sandbox:
        outside = await setup.outside(sandbox)
        for pty in (False, True):
            async with sandbox.shell(pty=pty) as shell:
                await _expect(shell, "x=1", 0, "")
                for line in lines:
                    started = time.monotonic()
                    result = await shell.run(f"echo a; {line}", timeout=1)
                    took = time.monotonic() - started
                    expect_equal(f"the cause of {line!r}", result.cause, "timeout")
                    expect_equal(f"the exit code of {line!r}", result.exit_code, None)
                    expect(not result.ended, f"{line!r} ended the shell")
                    expect(result.output.startswith("a"), f"{line!r} lost its output")
                    expect(took <= 2 + setup.grace, f"{line!r} returned after {took:.2f} s")
                    await _expect(shell, "echo $x", 0, "1\n")
            await expect_soon("nothing is left", lambda: not outside.left(), within=setup.grace)


@registry.check()
async def n_an_interrupt_reaches_the_command_and_not_its_background(setup: Setup) -> None:
    """As Ctrl-C does; cancelling the call does the same."""
    async with setup.sandbox() as sandbox:
        for pty in (False, True):
            async with sandbox.shell(pty=pty) as shell:
                await _expect(shell, "x=1; sleep 60 &", 0, "")
                await shell.start("echo on; sleep 50; echo no")
                await shell.read_until("on")
                # A shell that is just starting a program may swallow it.
                await asyncio.sleep(0.5)
                expect(await shell.interrupt(), "there was nobody to interrupt")
                result = await shell.wait()
                expect_equal("the exit code", (result.exit_code, result.ended), (130, False))
                expect("no" not in result.output, "the rest of the line ran")
                call = asyncio.ensure_future(shell.run("sleep 50"))
                await asyncio.sleep(0.5)
                call.cancel()
                await asyncio.wait({call})
                await _expect(shell, "echo $x; jobs -r | wc -l", 0, "1\n1\n")


@registry.check()
async def n_an_interactive_program_is_talked_to(setup: Setup) -> None:
    """Read up to a prompt, type, read on; the shell has its state afterwards."""
    async with setup.sandbox() as sandbox, sandbox.shell(pty=True) as shell:
        await _expect(shell, "x=1", 0, "")
        await shell.start("python3 -q", timeout=60)
        await shell.read_until(">>> ", timeout=20)
        await shell.send("6 * 7\n")
        answer = await shell.read_until(re.compile(rb"\n(\d+)\r\n>>> "), timeout=20)
        expect_equal("the answer", answer.split()[-2], b"42")
        error = await expect_raises(PatternNotFoundError, shell.read_until("?!", timeout=0.2))
        expect_equal("why", error.reason, "timeout")
        await expect_raises(InvalidArgumentError, shell.run("true"), names="runs")
        await shell.send("exit(3)\n")
        error = await expect_raises(PatternNotFoundError, shell.read_until("?!", timeout=20))
        expect_equal("why", error.reason, "ended")
        expect_equal("the exit code", (await shell.wait()).exit_code, 3)
        await _expect(shell, "echo $x", 0, "1\n")
        await shell.resize(11, 22)
        await _expect(shell, "stty size", 0, "11 22\n")


@registry.check()
async def n_the_output_of_a_command_is_whole_and_its_own(setup: Setup) -> None:
    """However much it is, and however little time there is between one and the next."""
    async with setup.sandbox() as sandbox, sandbox.shell() as shell:
        for number in range(200):
            await _expect(shell, f"echo {number}", 0, f"{number}\n")
        result = await shell.run("seq 1 300000; exit_code() { return 6; }; exit_code", timeout=60)
        promised = "".join(f"{number}\n" for number in range(1, 300_001))
        expect_equal("the output", (result.exit_code, result.output == promised), (6, True))
        result = await shell.run("seq 1 300000", max_output_bytes=100, timeout=60)
        seen = (result.truncated, result.output_total_bytes, len(result.output_bytes))
        expect_equal("what is kept of it", seen, (True, len(promised), 100))
        await _expect(shell, "echo next", 0, "next\n")


@registry.check()
async def n_a_closed_shell_leaves_nothing(setup: Setup) -> None:
    """Background jobs, whatever they did to hide, end with their shell."""
    async with setup.sandbox() as sandbox:
        outside = await setup.outside(sandbox)
        async with sandbox.shell() as shell:
            await shell.run("sleep 60 & setsid sleep 60 & (setsid sh -c 'sleep 60 &')")
            expect(len(outside.left()) >= 3, "the jobs run")  # noqa: PLR2004  (as many as started)
        await expect_soon("nothing is left", lambda: not outside.left(), within=setup.grace)
        await expect_raises(InvalidArgumentError, shell.run("true"), names="closed")


@registry.check()
async def n_a_shell_works_where_there_is_no_bash(setup: Setup) -> None:
    """Images have `sh` at most."""
    folder = "for each in sh cat sleep; do ln -s $(command -v $each) /tmp/bin/$each; done"
    async with setup.sandbox() as sandbox:
        await sandbox.run(f"mkdir /tmp/bin; {folder}")
        async with sandbox.shell(env={"PATH": "/tmp/bin"}) as shell:
            await _expect(shell, "command -v bash; cd /usr; x=1; f() { return 6; }", 0, "")
            await _expect(shell, "f", 6, "")
            await _expect(shell, "echo $? $x; pwd; cat", 0, "6 1\n/usr\n")
            expect_equal("a syntax error", (await shell.run("if")).exit_code, 2)
            result = await shell.run("sleep 60; echo no", timeout=1)
            seen = (result.cause, result.ended, result.output)
            expect_equal("a timeout", seen, ("timeout", False, ""))
            await _expect(shell, "echo $x", 0, "1\n")
            expect((await shell.run("exit 5")).ended, "the end of the shell is not told")
