"""Memory, CPU, disk, processes, output.

A limit that was hit is named with its value and the peak, whichever process hit it; what is
inside can use up its own share and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandboxd import Limits
from sandboxd.testing.check import Registry, expect, expect_equal

if TYPE_CHECKING:
    from sandboxd.testing.setup import Setup

registry = Registry()

GIB = 1 << 30


@registry.check("limit.memory")
async def m1_a_memory_hog_is_named_with_limit_and_peak_and_the_sandbox_lives_on(
    setup: Setup,
) -> None:
    """Not a non-zero exit, not a closed connection."""
    async with setup.sandbox(limits=Limits(memory=GIB)) as sandbox:
        result = await sandbox.run(["python3", "-c", "x=bytearray(3<<30)"])
        expect_equal("cause and limit", (result.cause, result.limit), ("memory_limit", GIB))
        expect(
            0.9 * GIB <= result.peak_memory <= GIB,
            f"the peak is {result.peak_memory}",
        )
        expect((await sandbox.run("true")).ok, "the sandbox does not work any more")


@registry.check("limit.memory")
async def m1_a_child_that_hits_the_limit_is_named_though_its_parent_exits_by_itself(
    setup: Setup,
) -> None:
    """The exit code of a wrapper and the cause are both reported."""
    async with setup.sandbox(limits=Limits(memory=256 << 20)) as sandbox:
        result = await sandbox.run("python3 -c 'x=bytearray(1<<30)'; exit 5")
        expect_equal("cause and exit code", (result.cause, result.exit_code), ("memory_limit", 5))


@registry.check("limit.pids")
async def m6_a_fork_storm_is_named_with_its_limit(setup: Setup) -> None:
    """None of it by reading stderr."""
    async with setup.sandbox(limits=Limits(pids=64)) as sandbox:
        storm = "for i in $(seq 100); do sleep 5 & done; wait"
        result = await sandbox.run(storm)
        expect_equal("cause and limit", (result.cause, result.limit), ("pids_limit", 64))
        expect_equal("the peak", result.limit_peak, 64)


@registry.check("limit.disk")
async def m6_a_full_disk_is_named_with_its_limit(setup: Setup) -> None:
    """Although the program sees an error of its own and exits by itself."""
    async with setup.sandbox(limits=Limits(disk=GIB // 4)) as sandbox:
        result = await sandbox.run("head -c 2G /dev/zero > /tmp/f")
        expect_equal("cause and limit", (result.cause, result.limit), ("disk_limit", GIB // 4))
        expect(result.exit_code not in (0, None), f"the exit code is {result.exit_code}")
        expect_equal("the peak", result.limit_peak, GIB // 4)
        await sandbox.files.remove("/tmp/f")
        again = await sandbox.run("echo fits > /tmp/f")
        expect_equal("the end of a write that fits", (again.cause, again.exit_code), ("exited", 0))


@registry.check("limit.cpu_time")
async def m6_used_up_cpu_time_is_named_with_limit_and_peak(setup: Setup) -> None:
    """In seconds of CPU, whichever process used them."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run("(while :; do :; done) & while :; do :; done", cpu_time=1)
        expect_equal("cause and limit", (result.cause, result.limit), ("cpu_limit", 1.0))
        expect((result.limit_peak or 0) >= 1, f"the peak is {result.limit_peak}")


@registry.check()
async def m6_too_much_output_is_named_with_limit_and_peak(setup: Setup) -> None:
    """Both streams together, and no byte of what was kept is lost."""
    async with setup.sandbox(limits=Limits(output=1 << 20)) as sandbox:
        result = await sandbox.run("yes & yes >&2 & wait")
        expect_equal("cause and limit", (result.cause, result.limit), ("output_limit", 1 << 20))
        total = result.stdout_total_bytes + result.stderr_total_bytes
        peak = result.limit_peak or 0
        expect(1 << 20 < peak <= total, f"the peak is {peak} of {total} bytes")
        within = await sandbox.run("head -c 1048576 /dev/zero")
        seen = (within.cause, within.stdout_total_bytes)
        expect_equal("the end of one that stays within", seen, ("exited", 1 << 20))


@registry.check("limit.disk")
async def m8_every_place_that_can_be_written_counts_against_the_disk_limit(setup: Setup) -> None:
    """Shared memory, home, working directory; `/usr` too where its owner is one of inside."""
    places = ["/tmp", "/dev/shm", "/root", "/var/tmp"]
    if setup.has("user.range"):
        places.append("/usr/local")
    async with setup.sandbox(limits=Limits(disk=64 << 20)) as sandbox:
        for place in places:
            result = await sandbox.run(
                f"fallocate -l 90G {place}/big || head -c 99M /dev/zero > {place}/big"
            )
            seen = await sandbox.run(f"rm -f {place}/big")
            expect(result.exit_code != 0, f"99 MiB fitted into {place}")
            expect("No space left" in result.stderr, f"{place}: {result.stderr}")
            expect(seen.ok, f"{place} cannot be cleaned: {seen.stderr}")


@registry.check("limit.memory", "limit.pids", "limit.disk")
async def m6_one_sandboxs_limit_is_no_cause_of_another_sandboxs_end(setup: Setup) -> None:
    """A failing command next door stays what it is."""
    async with (
        setup.sandbox(limits=Limits(memory=128 << 20)) as hungry,
        setup.sandbox() as neighbour,
    ):
        waiting = await neighbour.start("sleep 2; exit 7")
        hog = await hungry.run(["python3", "-c", "x=bytearray(1<<30)"])
        expect_equal("the hog's cause", hog.cause, "memory_limit")
        result = await waiting.wait()
        expect_equal("the neighbour's end", (result.cause, result.exit_code), ("exited", 7))


@registry.check("limit.memory")
async def m6_a_limit_once_hit_is_no_cause_of_later_ends(setup: Setup) -> None:
    """Counters that grew before an exec are not its doing."""
    async with setup.sandbox(limits=Limits(memory=128 << 20)) as sandbox:
        hog = await sandbox.run(["python3", "-c", "x=bytearray(1<<30)"])
        expect_equal("the hog's cause", hog.cause, "memory_limit")
        for command, promised in (("exit 1", ("exited", 1)), ("true", ("exited", 0))):
            result = await sandbox.run(command)
            expect_equal(f"the end of {command!r}", (result.cause, result.exit_code), promised)


@registry.check("limit.memory", "limit.pids", "limit.disk", "limit.cpu_time", seconds=120)
async def z2_whose_doing_an_end_was_follows_from_its_cause_alone(setup: Setup) -> None:
    """One of each, and no program gets to another's by what it prints, returns or kills."""
    limits = Limits(memory=128 << 20, pids=64, disk=32 << 20, output=1 << 20)
    forged = "echo 'sandbox_lost: node_lost' >&2; echo oom-kill; "
    provoked: list[tuple[str, str, dict[str, Any]]] = [
        ("exited", f"{forged} exit 137", {}),
        ("exited", f"{forged} exit 125", {}),
        ("signaled", f"{forged} kill -9 $$", {}),
        ("signaled", f"{forged} kill -15 $$", {}),
        ("timeout", "sleep 60", {"timeout": 0.3}),
        ("idle_output_timeout", "sleep 60", {"idle_output_timeout": 0.3}),
        ("cpu_limit", "while :; do :; done", {"cpu_time": 0.2}),
        ("memory_limit", "exec python3 -c 'x=bytearray(1<<30)'", {}),
        ("pids_limit", "for i in $(seq 100); do sleep 5 & done; wait", {}),
        ("disk_limit", "head -c 64M /dev/zero > /tmp/f", {}),
        ("output_limit", "yes", {}),
    ]
    async with setup.sandbox(limits=limits) as sandbox:
        for cause, command, options in provoked:
            result = await sandbox.run(command, **options)
            expect_equal(f"the cause of {command!r}", result.cause, cause)
            is_limit = cause not in {"exited", "signaled"}
            expect_equal(f"whether {cause} has a limit", result.limit is not None, is_limit)
            await sandbox.run("rm -f /tmp/f")
        process = await sandbox.start("sleep 60")
        await process.kill()
        expect_equal("the cause of kill()", (await process.wait()).cause, "canceled")
        # Whoever kills everybody else is left, and has a result like any other.
        last = await sandbox.run(f"sleep 60 & {forged} kill -9 -1; exit 3")
        seen = (last.cause, last.exit_code)
        expect_equal("the end of who kills everybody", seen, ("exited", 3))
        expect((await sandbox.run("true")).ok, "the sandbox does not work any more")
