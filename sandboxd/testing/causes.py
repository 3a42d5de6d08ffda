"""Whose doing an end was.

Program, policy, caller or infrastructure follows from the cause alone, without reading a message;
no program reaches a cause that is not its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandboxd import Cause, ExecFailedError, Limits
from sandboxd.testing.check import Registry, expect, expect_equal, expect_raises

if TYPE_CHECKING:
    from sandboxd import ExecResult
    from sandboxd.testing.setup import Setup

registry = Registry()

BUSY = ["python3", "-c", "while True: pass"]

PROVOKED: dict[Cause, tuple[tuple[str, ...], Limits | None, Any, dict[str, Any]]] = {
    Cause.EXITED: ((), None, "exit 3", {}),
    Cause.SIGNALED: ((), None, "kill -TERM $$", {}),
    Cause.TIMEOUT: ((), None, "sleep 60", {"timeout": 0.3}),
    Cause.IDLE_OUTPUT_TIMEOUT: ((), None, "echo a; sleep 60", {"idle_output_timeout": 0.5}),
    Cause.CPU_LIMIT: (("limit.cpu_time",), None, BUSY, {"cpu_time": 0.3}),
    Cause.MEMORY_LIMIT: (
        ("limit.memory",),
        Limits(memory=128 << 20),
        ["python3", "-c", "x = bytearray(1 << 30)"],
        {},
    ),
    Cause.PIDS_LIMIT: (
        ("limit.pids",),
        Limits(pids=64),
        "for i in $(seq 100); do sleep 5 & done; wait",
        {},
    ),
    Cause.DISK_LIMIT: (
        ("limit.disk",),
        Limits(disk=64 << 20),
        "head -c 1G /dev/zero > /tmp/f",
        {},
    ),
    Cause.OUTPUT_LIMIT: ((), Limits(output=10_000), "yes", {}),
}
"""How each cause is reached: what the host must enforce, limits, command, options."""

FORGED = (
    "sandbox_lost: agent died",
    "connection lost, may have run",
    "Killed",
    "timeout: the command took too long",
    "fork: retry: Resource temporarily unavailable",
)

CODES_OF_MACHINERY = (1, 124, 125, 126, 127, 128 + 9, 128 + 15, 254, 255)


@registry.check(seconds=180)
async def z2_every_cause_is_that_of_what_ended_the_command(setup: Setup) -> None:
    """One instance of each."""
    for cause, (needs, limits, command, options) in PROVOKED.items():
        if not all(setup.has(need) for need in needs):
            continue
        async with setup.sandbox(limits=limits) as sandbox:
            result = await sandbox.run(command, **options)
            expect_equal(f"the cause of {command!r}", result.cause, cause)
            _expect_nothing_invented(result)
            # It was this command's end and not the sandbox's.
            if limits is None:
                expect((await sandbox.run("true")).ok, f"no command runs after {cause.value}")
    async with setup.sandbox() as sandbox:
        process = await sandbox.start("sleep 60")
        await process.kill()
        result = await process.wait()
        expect_equal("the cause of a kill", result.cause, Cause.CANCELED)
        _expect_nothing_invented(result)


def _expect_nothing_invented(result: ExecResult) -> None:
    """Fail unless a code is there exactly when no signal is, and a limit when the cause is one."""
    ends = (result.exit_code is not None) + (result.signal is not None)
    expect(ends == 1, f"{result.cause} has code {result.exit_code} and signal {result.signal}")
    is_limit = result.cause not in (Cause.EXITED, Cause.SIGNALED, Cause.CANCELED)
    expect_equal(f"whether {result.cause} has a limit", result.limit is not None, is_limit)


@registry.check(seconds=180)
async def z2_no_program_reaches_a_cause_that_is_not_its_own(setup: Setup) -> None:
    """Not by printing, not by exit codes, not by killing itself or all of its kind."""
    async with setup.sandbox() as sandbox:
        for text in FORGED:
            result = await sandbox.run(f"echo '{text}'; echo '{text}' >&2; exit 1")
            expect_equal(f"the end of {text!r}", (result.cause, result.exit_code), ("exited", 1))
        for code in CODES_OF_MACHINERY:
            result = await sandbox.run(f"exit {code}")
            expect_equal(f"the end of {code}", (result.cause, result.exit_code), ("exited", code))
        # 0 would be no signal; 19 and others stop or are ignored.
        for signal in (1, 2, 3, 6, 9, 11, 13, 14, 15, 24, 25, 31):
            result = await sandbox.run(f"kill -{signal} $$")
            seen = (result.cause, result.signal, result.exit_code)
            expect_equal(f"the end by signal {signal}", seen, ("signaled", signal, None))
        result = await sandbox.run("kill -9 -1; exit 4", timeout=10)
        expect(
            result.cause in (Cause.EXITED, Cause.SIGNALED),
            f"killing everything inside is {result.cause}",
        )
        expect((await sandbox.run("true")).ok, "the sandbox does not work any more")


@registry.check()
async def z2_what_was_not_started_has_no_result_and_did_not_run(setup: Setup) -> None:
    """A failure of a start is an error; a code of it would be an invention."""
    async with setup.sandbox() as sandbox:
        for argv, cwd, user in (
            (["/nope"], None, None),
            (["/etc"], None, None),
            (["true"], "/nope", None),
            (["true"], None, "nosuchuser"),
        ):
            error = await expect_raises(ExecFailedError, sandbox.run(argv, cwd=cwd, user=user))
            expect(not error.may_have_run, f"{argv} in {cwd} as {user} may have run: {error}")
