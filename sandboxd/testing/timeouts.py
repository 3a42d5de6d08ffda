"""Time limits and process trees.

An exec that is ended is over at its deadline, with everything it ever started and with all it
had said; an exec that exits is over at its exit, and what it left running is left alone.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from sandboxd import Limits
from sandboxd.testing.check import Registry, at_once, expect, expect_equal, expect_soon

if TYPE_CHECKING:
    from sandboxd import AsyncSandbox, ExecResult
    from sandboxd.testing.setup import Setup

registry = Registry()

TREES = ("sleep 20", "sleep 20; true", "sleep 20 & wait", "(sleep 20)", "sleep 20 | cat")


async def _ends_at(
    setup: Setup, sandbox: AsyncSandbox, command: str | list[str], deadline: float
) -> ExecResult:
    outside = await setup.outside(sandbox)
    started = time.monotonic()
    result = await sandbox.run(command, timeout=deadline)
    took = time.monotonic() - started
    left = outside.left()
    expect_equal(f"the cause of {command!r}", result.cause, "timeout")
    expect_equal(f"the exit code of {command!r}", result.exit_code, None)
    expect(
        deadline <= took <= deadline + setup.grace,
        f"{command!r} with a limit of {deadline} s returned after {took:.2f} s",
    )
    expect_equal(f"what is left of {command!r}", left, [])
    return result


@registry.check()
async def t1_a_deadline_ends_the_whole_tree_and_not_the_outer_shell_alone(setup: Setup) -> None:
    """A grandchild that holds the pipe keeps nobody waiting."""
    async with setup.sandbox() as sandbox:
        result = await _ends_at(setup, sandbox, "sleep 5; echo hello", 2)
        expect_equal("stdout", result.stdout_bytes, b"")


@registry.check()
async def t2_nothing_of_an_exec_runs_when_its_result_arrives(setup: Setup) -> None:
    """Not some time later: the next command may use the same port, file or memory."""
    async with setup.sandbox() as sandbox:
        await _ends_at(setup, sandbox, "sleep 10", 1)
        info = await sandbox.info()
        expect_equal("the number of running execs", info.running_execs, 0)


@registry.check()
async def t4_cancel_ends_every_process_of_the_exec(setup: Setup) -> None:
    """Background jobs and both ends of a pipeline included."""
    async with setup.sandbox() as sandbox:
        outside = await setup.outside(sandbox)
        process = await sandbox.start("sleep 60 & sleep 60 | cat")
        await expect_soon("all of the tree runs", lambda: _tree_runs(outside.left()), within=5)
        await process.kill()
        await expect_soon("nothing is left", lambda: not outside.left(), within=setup.grace)
        expect_equal("the cause", (await process.wait()).cause, "canceled")


@registry.check()
async def t4_a_signal_reaches_every_process_of_the_exec(setup: Setup) -> None:
    """And not the leader of its group alone."""
    async with setup.sandbox() as sandbox:
        outside = await setup.outside(sandbox)
        process = await sandbox.start("sleep 60 & sleep 60 | cat")
        await expect_soon("all of the tree runs", lambda: _tree_runs(outside.left()), within=5)
        await process.terminate()
        await expect_soon("nothing is left", lambda: not outside.left(), within=setup.grace)
        result = await process.wait()
        expect_equal("cause and signal", (result.cause, result.signal), ("signaled", 15))


def _tree_runs(left: list[str]) -> bool:
    return left.count("sleep 60") == 2 and "cat" in left  # noqa: PLR2004  (the two of the command)


@registry.check()
async def t5_every_shape_of_tree_in_bash_and_dash_ends_at_its_deadline(setup: Setup) -> None:
    """Job control and the shell's own exec of a last command change who is whose parent."""

    async def one(number: int) -> None:
        shell = ("bash", "dash")[number % 2]
        async with setup.sandbox() as sandbox:
            await _ends_at(setup, sandbox, [shell, "-c", TREES[number // 2]], 2)

    await at_once(2 * len(TREES), 2 * len(TREES), one)


@registry.check()
async def t6_a_background_child_neither_delays_the_exit_nor_dies_with_it(setup: Setup) -> None:
    """A server started with `&` is left alone although it holds the output pipe."""
    async with setup.sandbox() as sandbox:
        outside = await setup.outside(sandbox)
        started = time.monotonic()
        result = await sandbox.run("echo hi; sleep 8 &")
        took = time.monotonic() - started
        expect(took <= setup.grace, f"the result came after {took:.2f} s")
        expect_equal("exit code and cause", (result.exit_code, result.cause), (0, "exited"))
        expect_equal("stdout", result.stdout_bytes, b"hi\n")
        await asyncio.sleep(2)
        expect_equal("what runs two seconds later", outside.left(), ["sleep 8"])


@registry.check()
async def t8_a_process_that_left_its_session_ends_with_its_exec(setup: Setup) -> None:
    """Setsid and double forks hide a process from its parent, not from its exec."""
    command = "setsid sleep 60 & (setsid sh -c 'sleep 60 &'); sleep 60"
    async with setup.sandbox() as sandbox:
        await _ends_at(setup, sandbox, command, 1)


@registry.check()
async def t8_an_exit_is_not_held_up_by_a_process_that_left_its_session(setup: Setup) -> None:
    """No call waits for the end of a pipe that somebody else holds."""
    async with setup.sandbox() as sandbox:
        started = time.monotonic()
        result = await sandbox.run("setsid sleep 60 & exit", timeout=1)
        took = time.monotonic() - started
        expect_equal("exit code and cause", (result.exit_code, result.cause), (0, "exited"))
        expect(took <= setup.grace, f"the result came after {took:.2f} s")


@registry.check(seconds=300)
async def t10_no_exit_code_is_lost_or_mixed_up_while_orphans_die(setup: Setup) -> None:
    """The one who reaps orphans must not take statuses that others wait for."""
    orphans = "while :; do (sleep 0.02 & sleep 0.01 &); sleep 0.01; done"
    async with setup.sandbox() as sandbox:
        outside = await setup.outside(sandbox)
        noise = await sandbox.start(orphans)
        for program, code in (("true", 0), ("false", 1)):

            async def one(_: int, program: str = program) -> int | None:
                return (await sandbox.run([program])).exit_code

            codes = await at_once(10_000, 32, one)
            wrong = [seen for seen in codes if seen != code]
            expect_equal(f"wrong exit codes of {program}", wrong, [])
        await noise.kill()
        await expect_soon("no zombie is left", lambda: not outside.zombies(), within=5)


@registry.check()
async def t12_what_was_said_before_a_deadline_is_delivered(setup: Setup) -> None:
    """Partial output is what a failed attempt is judged by."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run("echo a; echo b >&2; sleep 9", timeout=1)
        expect_equal(
            "stdout, stderr and cause",
            (result.stdout_bytes, result.stderr_bytes, result.cause),
            (b"a\n", b"b\n", "timeout"),
        )


@registry.check()
async def t12_what_was_said_before_a_cancel_is_delivered(setup: Setup) -> None:
    """The same output as for a deadline."""
    async with setup.sandbox() as sandbox:
        process = await sandbox.start("echo a; echo b >&2; sleep 9")
        said: dict[str, bytes] = {}
        async for chunk in process:
            said[chunk.stream] = said.get(chunk.stream, b"") + chunk.data
            if len(said) == 2:  # noqa: PLR2004  (both streams have spoken)
                await process.kill()
        result = await process.wait()
        expect_equal("the cause", result.cause, "canceled")
        expect_equal("the output", said, {"stdout": b"a\n", "stderr": b"b\n"})


@registry.check()
async def t12_silence_ends_the_whole_tree_and_what_was_said_before_is_delivered(
    setup: Setup,
) -> None:
    """A program that hangs is told from one that works for long, by what it says."""
    async with setup.sandbox() as sandbox:
        outside = await setup.outside(sandbox)
        result = await sandbox.run(
            "echo a; echo b >&2; (setsid sleep 60 &); sleep 60", idle_output_timeout=1
        )
        expect_equal("what is left", outside.left(), [])
        expect_equal(
            "stdout, stderr, cause and limit",
            (result.stdout_bytes, result.stderr_bytes, result.cause, result.limit),
            (b"a\n", b"b\n", "idle_output_timeout", 1.0),
        )
        peak = result.limit_peak or 0
        expect(1 <= peak <= 1 + setup.grace, f"the silence lasted {peak} s")
        talks = "for i in 1 2 3 4 5 6; do sleep 0.5; echo $i; done"
        talker = await sandbox.run(talks, idle_output_timeout=2 + setup.grace)
        seen = (talker.cause, talker.exit_code, talker.stdout)
        expect_equal("the end of one that talks", seen, ("exited", 0, "1\n2\n3\n4\n5\n6\n"))


@registry.check()
async def h4_a_slow_reader_is_not_the_silence_of_a_program(setup: Setup) -> None:
    """What the program wants to say, and cannot yet, counts as said."""
    size = 8_000_000
    async with setup.sandbox() as sandbox:
        process = await sandbox.start(
            f"head -c {size} /dev/zero", idle_output_timeout=1 + setup.grace
        )
        read = 0
        async for chunk in process:
            if read == 0:
                await asyncio.sleep(2 + 2 * setup.grace)
            read += len(chunk.data)
        result = await process.wait()
        expect_equal("cause and bytes", (result.cause, read), ("exited", size))


@registry.check("limit.memory")
async def t12_what_was_said_before_the_memory_limit_is_delivered(setup: Setup) -> None:
    """The kernel's killer gives no time for a last word: what was written is there."""
    async with setup.sandbox(limits=Limits(memory=128 << 20)) as sandbox:
        hog = "echo a; echo b >&2; exec python3 -c 'x = bytearray(1 << 30)'"
        result = await sandbox.run(hog)
        expect_equal(
            "stdout, stderr and cause",
            (result.stdout_bytes, result.stderr_bytes, result.cause),
            (b"a\n", b"b\n", "memory_limit"),
        )


@registry.check()
async def t13_every_kind_of_end_has_its_own_cause_and_nothing_is_invented(setup: Setup) -> None:
    """A program's own 124, 137 or 255 is a number like any other."""
    async with setup.sandbox() as sandbox:
        for code in (7, 124, 137, 255):
            result = await sandbox.run(f"exit {code}")
            seen = (result.cause, result.exit_code, result.signal)
            expect_equal(f"the end of `exit {code}`", seen, ("exited", code, None))
        killed = await sandbox.run("kill -9 $$")
        seen = (killed.cause, killed.exit_code, killed.signal)
        expect_equal("the end of `kill -9 $$`", seen, ("signaled", None, 9))
        late = await sandbox.run("sleep 9", timeout=0.3)
        expect_equal("a deadline's end", (late.cause, late.exit_code), ("timeout", None))
        silent = await sandbox.run("sleep 9", idle_output_timeout=0.3)
        ended = (silent.cause, silent.exit_code)
        expect_equal("the end of a silence", ended, ("idle_output_timeout", None))
        process = await sandbox.start("sleep 9")
        await process.kill()
        canceled = await process.wait()
        ended = (canceled.cause, canceled.exit_code)
        expect_equal("a canceled exec's end", ended, ("canceled", None))


@registry.check(seconds=120)
async def t14_a_command_without_a_timeout_has_none(setup: Setup) -> None:
    """No layer adds a default: seventy seconds is longer than any that is usual."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run("sleep 70")
        expect_equal("exit code and cause", (result.exit_code, result.cause), (0, "exited"))


@registry.check()
async def t16_a_busy_loop_ends_at_its_deadline(setup: Setup) -> None:
    """No help from the program is needed."""
    async with setup.sandbox() as sandbox:
        await _ends_at(setup, sandbox, ["python3", "-c", "while True: pass"], 1)


@registry.check("limit.cpu_time")
async def t16_a_busy_loop_ends_when_its_cpu_time_is_used_up(setup: Setup) -> None:
    """Whatever the clock on the wall says: a busy machine must not decide."""
    busy = ["python3", "-c", "while True: pass"]
    async with setup.sandbox() as sandbox:
        outside = await setup.outside(sandbox)
        result = await sandbox.run(busy, cpu_time=1)
        expect_equal("what is left", outside.left(), [])
        seen = (result.cause, result.exit_code, result.limit)
        expect_equal("cause, exit code and limit", seen, ("cpu_limit", None, 1.0))
        peak = result.limit_peak or 0
        expect(1 <= peak < 1.5, f"it could use {peak} s")  # noqa: PLR2004  (half of it again)
        expect_equal("its cost", result.cpu_time, peak)
        patient = await sandbox.run("sleep 2", cpu_time=1)
        seen = (patient.cause, patient.exit_code, patient.limit)
        expect_equal("the end of one that waits", seen, ("exited", 0, None))


@registry.check("limit.cpu_time")
async def t16_cpu_time_is_counted_for_all_processes_of_an_exec_together(setup: Setup) -> None:
    """Those included that nobody waits for, that left their session, and that were quick."""
    spin = "python3 -c 'import time\nwhile time.process_time() < 60: pass'"
    quick = "python3 -c 'import time\nwhile time.process_time() < 0.1: pass'"
    commands = (
        f"{spin} & {spin} & wait",
        f"(setsid {spin} &); sleep 60",
        f"while :; do (setsid {quick} &); sleep 0.1; done",
    )
    async with setup.sandbox() as sandbox:
        outside = await setup.outside(sandbox)
        for command in commands:
            result = await sandbox.run(command, cpu_time=1, timeout=50)
            expect_equal(f"what is left of {command!r}", outside.left(), [])
            expect_equal(f"the cause of {command!r}", result.cause, "cpu_limit")
        # A limit that was not seen in time is met all the same, and the exit code is not hidden.
        over = await sandbox.run(
            ["python3", "-c", "import time\nwhile time.process_time() < 0.3: pass"], cpu_time=0.2
        )
        expect_equal("the cause of one that is soon over", over.cause, "cpu_limit")
