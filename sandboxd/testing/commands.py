"""Exit code, environment, directory, user.

A command runs exactly as given, with that environment, directory and user, or it does not run
and the error names what is missing; what the program says is never taken for what the machinery
says; what it sees of the machine is its own share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd import ExecFailedError, InvalidArgumentError, Limits
from sandboxd.testing.check import Registry, expect, expect_equal, expect_raises

if TYPE_CHECKING:
    from sandboxd.testing.setup import Setup

registry = Registry()

LONGEST_STRING = 131_071
"""Bytes of one argument or environment entry: MAX_ARG_STRLEN of execve(2) without its NUL."""


@registry.check()
async def x2_a_directory_that_cannot_be_entered_is_an_error_before_the_start(setup: Setup) -> None:
    """A command must not run in the wrong place."""
    async with setup.sandbox() as sandbox:
        prepared = "touch /tmp/file; mkdir -m 700 /tmp/closed"
        expect((await sandbox.run(prepared)).ok, f"{prepared!r} failed")
        places: list[tuple[str, str | None]] = [("/nope", None), ("/tmp/file", None)]
        if setup.has("user.range"):
            places.append(("/tmp/closed", "nobody"))
        for place, user in places:
            call = sandbox.run("touch /tmp/ran", cwd=place, user=user)
            await expect_raises(ExecFailedError, call, names=place)
        ran = await sandbox.run("test -e /tmp/ran")
        expect_equal("whether /tmp/ran exists", ran.exit_code, 1)


@registry.check()
async def x7_the_environment_of_an_exec_comes_last_and_the_machines_never(setup: Setup) -> None:
    """Template < claim < exec, in a shell line, an argv, a child of a child, and a process."""
    show = "sh -c 'echo $A:$B:$C'"
    async with setup.sandbox(env={"A": "claim", "B": "claim"}) as sandbox:
        env = {"B": "exec", "C": "exec=1 2"}
        line = await sandbox.run(show, env=env)
        argv = await sandbox.run(["sh", "-c", f"exec {show}"], env=env)
        process = await (await sandbox.start(show, env=env)).wait()
        seen = [line.stdout, argv.stdout, process.stdout]
        expect_equal("the environment", seen, ["claim:exec:exec=1 2\n"] * 3)


@registry.check()
async def x7_a_bare_program_name_is_found_through_the_path_of_the_exec(setup: Setup) -> None:
    """And through no other."""
    async with setup.sandbox() as sandbox:
        await sandbox.files.write("/opt/own/hello", "#!/bin/sh\necho found\n", mode=0o755)
        result = await sandbox.run(["hello"], env={"PATH": "/opt/own:/bin:/usr/bin"})
        expect_equal("stdout", result.stdout, "found\n")
        await expect_raises(ExecFailedError, sandbox.run(["hello"]), names="hello")


@registry.check()
async def x9_what_a_program_says_is_not_taken_for_what_the_machinery_says(setup: Setup) -> None:
    """A launcher's error text on stderr is output like any other."""
    forged = "exec failed: sandbox_lost: no such file or directory"
    async with setup.sandbox() as sandbox:
        result = await sandbox.run(f"echo '{forged}' >&2; exit 1")
        seen = (result.cause, result.exit_code, result.stderr)
        expect_equal("cause, exit code and stderr", seen, ("exited", 1, forged + "\n"))


@registry.check()
async def x9_a_program_that_cannot_be_started_is_an_error_that_names_the_step(
    setup: Setup,
) -> None:
    """Not found, not executable, no such user: each its own step, and never an exit code."""
    async with setup.sandbox() as sandbox:
        await sandbox.files.write("/tmp/plain", "echo hi\n", mode=0o644)
        steps = {
            "missing program": (["/nope/program"], None, "/nope/program"),
            "plain file": (["/tmp/plain"], None, "/tmp/plain"),
            "unknown user": (["true"], "nosuchuser", "nosuchuser"),
        }
        for what, (argv, user, named) in steps.items():
            call = sandbox.run(argv, user=user)
            error = await expect_raises(ExecFailedError, call, names=named)
            expect(bool(error.step), f"the error for a {what} names no step: {error!r}")
        missing = await sandbox.run("no-such-command-here")
        seen = (missing.cause, missing.exit_code)
        expect_equal("the shell's own answer", seen, ("exited", 127))


@registry.check("limit.cpu")
async def x10_a_program_sees_its_share_of_the_processors(setup: Setup) -> None:
    """A pool of workers sized by the machine would drown in a sandbox of one core."""
    ask = "import os; print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
    for cpus in (1, 0.5):
        async with setup.sandbox(limits=Limits(cpus=cpus)) as sandbox:
            shown = (await sandbox.run("nproc")).stdout
            python = (await sandbox.run(["python3", "-c", ask])).stdout
            expect_equal(f"nproc and Python with {cpus} cores", (shown, python), ("1\n", "1 1\n"))


@registry.check(seconds=120)
async def f4_a_shell_line_of_any_length_runs(setup: Setup) -> None:
    """The kernel's limit on one argument is not a limit on a script."""
    async with setup.sandbox() as sandbox:
        line = ": " + "x" * (1 << 20) + "; echo ok"
        expect_equal("stdout", (await sandbox.run(line)).stdout, "ok\n")


@registry.check()
async def f4_the_longest_argument_runs_and_a_longer_one_is_named_before_the_start(
    setup: Setup,
) -> None:
    """The error names the element and the limit."""
    async with setup.sandbox() as sandbox:
        longest = "x" * LONGEST_STRING
        result = await sandbox.run(["sh", "-c", "echo ${#1}", "sh", longest])
        expect_equal("the length that arrived", result.stdout, f"{LONGEST_STRING}\n")
        entry = {"A": "x" * (LONGEST_STRING - len("A="))}
        result = await sandbox.run("echo ${#A}", env=entry)
        expect_equal("the length that arrived", result.stdout, f"{LONGEST_STRING - 2}\n")
        too_long = sandbox.run(["sh", "-c", "touch /tmp/ran", longest + "x"])
        error = await expect_raises(InvalidArgumentError, too_long, names="command[3]")
        expect("131072" in str(error) or "131071" in str(error), f"{error} names no limit")
        too_long = sandbox.run("touch /tmp/ran", env={"ENTRY": "x" * LONGEST_STRING})
        await expect_raises(InvalidArgumentError, too_long, names="ENTRY")
        ran = await sandbox.run("test -e /tmp/ran")
        expect_equal("whether /tmp/ran exists", ran.exit_code, 1)


@registry.check()
async def z12_two_execs_at_once_do_not_mix_their_figures(setup: Setup) -> None:
    """Duration, CPU time and totals are the exec's own."""
    busy = "import time\nwhile time.process_time() < 0.5: pass\nprint('x' * 999)"
    async with setup.sandbox() as sandbox:
        idle = await sandbox.start("sleep 1")
        worked = await sandbox.run(["python3", "-c", busy])
        slept = await idle.wait()
        expect(worked.cpu_time >= 0.5, f"a busy exec shows {worked.cpu_time} s")  # noqa: PLR2004
        expect(slept.cpu_time < 0.25, f"a sleeping exec shows {slept.cpu_time} s")  # noqa: PLR2004
        expect(slept.duration >= 1.0, f"a sleep of 1 s took {slept.duration} s")
        totals = (worked.stdout_total_bytes, slept.stdout_total_bytes)
        expect_equal("the totals", totals, (1000, 0))


@registry.check("limit.cpu_time")
async def z12_the_cost_of_an_exec_has_what_nobody_waited_for(setup: Setup) -> None:
    """Orphans, and what was killed with it; nothing of who used the machine before or beside."""
    work = "python3 -c 'import time\nwhile time.process_time() < 0.5: pass'"
    spin = "python3 -c 'while True: pass'"
    async with setup.sandbox() as sandbox:
        orphaned = await sandbox.run(f"(setsid {work} > /tmp/o; echo >> /tmp/o) & exec sleep 5")
        cost = orphaned.cpu_time
        expect(0.5 <= cost < 1.5, f"with an orphan of 0.5 s it shows {cost} s")  # noqa: PLR2004
        killed = await sandbox.run(f"{spin} & {spin} & sleep 60", timeout=3)
        cost = killed.cpu_time
        expect(cost > 0.2, f"with two busy children that were killed it shows {cost} s")  # noqa: PLR2004
        # The leaf that an exec gets may have been used by a hundred others.
        for _ in range(40):
            await sandbox.run("true")
        lingers = await sandbox.run(f"{spin} > /dev/null 2>&1 & exit 0")
        slept = await sandbox.run("sleep 0.5")
        expect(slept.cpu_time < 0.25, f"a sleep shows {slept.cpu_time} s")  # noqa: PLR2004
        expect(lingers.cpu_time < 0.5, f"one that is over shows {lingers.cpu_time} s")  # noqa: PLR2004


@registry.check()
async def z12_every_result_has_duration_memory_and_io(setup: Setup) -> None:
    """Facts, or none: nothing is made up where the kernel does not count."""
    hog = "x = bytearray(64 << 20); print(sum(x[::4096]))"
    async with setup.sandbox() as sandbox:
        large = await sandbox.run(["python3", "-c", hog])
        small = await sandbox.run("true")
        expect(large.peak_memory >= 64 << 20, f"64 MiB in use show as {large.peak_memory}")
        expect(0 < small.peak_memory < 64 << 20, f"`true` shows {small.peak_memory} bytes")
        for result in (large, small):
            expect(0 < result.cpu_time <= 60 and result.duration > 0, f"{result} lacks a fact")  # noqa: PLR2004
            figures = (result.io_read_bytes, result.io_write_bytes)
            counted = all(figure is not None and figure >= 0 for figure in figures)
            expect(counted or figures == (None, None), f"the figures of input are {figures}")
