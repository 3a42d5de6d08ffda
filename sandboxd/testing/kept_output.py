"""Output that is kept: read again, from anywhere, by anybody.

What is there is read byte for byte; for what is not there is an error that says what is, and never
other bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from sandboxd import ExecExpiredError, ExecNotFoundError, OutputRangeError
from sandboxd.testing.check import Registry, expect, expect_equal, expect_raises

if TYPE_CHECKING:
    from sandboxd import AsyncProcess, AsyncSandbox
    from sandboxd.testing.setup import Setup

registry = Registry()

SEQ = "".join(f"{number}\n" for number in range(1, 1_000_001)).encode()


async def _collect(process: AsyncProcess) -> bytes:
    return b"".join([output.data async for output in process])


async def _ended(sandbox: AsyncSandbox, exec_id: str) -> bool:
    return not any(each.running for each in await sandbox.execs() if each.exec_id == exec_id)


async def _wait_for_the_end(sandbox: AsyncSandbox, exec_id: str) -> None:
    for _ in range(3000):
        if await _ended(sandbox, exec_id):
            return
        await asyncio.sleep(0.01)
    expect(False, f"{exec_id} still runs after 30 s although it need not wait")  # noqa: FBT003


@registry.check()
async def h3_of_two_readers_one_stalls_and_the_other_gets_everything(setup: Setup) -> None:
    """One stalled reader must not hold up the exec, its other readers, or other calls."""
    async with setup.sandbox() as sandbox:
        stalled = await sandbox.start("seq 1 1000000; exit 7")
        await stalled.__anext__()
        reader = await sandbox.attach(stalled.exec_id)
        seen = await _collect(reader)
        expect_equal("length of what the reader saw", len(seen), len(SEQ))
        expect(seen == SEQ, "the reader saw other bytes")
        expect_equal("the exit code", (await reader.wait()).exit_code, 7)
        expect_equal("a new run", (await sandbox.run("echo on")).stdout, "on\n")
        late = await _collect(stalled)
        expect(SEQ.endswith(late), "the stalled reader saw other bytes when it went on")


@registry.check(seconds=120)
async def h3_readers_at_different_places_read_at_their_own_speed(setup: Setup) -> None:
    """Who fell behind gets the same bytes as who did not."""
    total = 60_000_000
    async with setup.sandbox() as sandbox:
        process = await sandbox.start(f"seq 1 100000000 | head -c {total}")
        hashes = []

        async def read(pause: float) -> None:
            seen = hashlib.sha256()
            async for output in await sandbox.attach(process.exec_id):
                seen.update(output.data)
                if pause:
                    await asyncio.sleep(pause)
            hashes.append(seen.hexdigest())

        await asyncio.gather(read(0), read(0.002), read(0))
        expect_equal("different hashes", len(set(hashes)), 1)
        result = await process.wait(max_output_bytes=100)
        expect_equal("the hash", result.stdout_sha256, hashes[0])
        expect_equal("the total", result.stdout_total_bytes, total)


@registry.check(seconds=120)
async def h4_a_program_that_nobody_reads_ends_by_itself_and_can_be_read_then(setup: Setup) -> None:
    """The default policy: to a file, up to a limit that is larger than this."""
    total = 200_000_000
    async with setup.sandbox() as sandbox:
        process = await sandbox.start(f"head -c {total} /dev/zero")
        await _wait_for_the_end(sandbox, process.exec_id)
        expect_equal("the last bytes", await process.read("stdout", total - 3, 100), bytes(3))
        result = await process.wait()
        expect_equal(
            "exit code and total", (result.exit_code, result.stdout_total_bytes), (0, total)
        )
        expect_equal("the hash", result.stdout_sha256, hashlib.sha256(bytes(total)).hexdigest())


@registry.check()
async def z10_spilled_output_can_be_read_from_any_offset_after_it_was_read(setup: Setup) -> None:
    """Reading does not use output up."""
    async with setup.sandbox() as sandbox:
        process = await sandbox.start("seq 1 1000000; echo err >&2")
        await process.wait()
        for offset in (0, 1, 65_535, 1_000_000, 4_000_000, len(SEQ) - 1):
            seen = await process.read("stdout", offset, 70_000)
            expect(seen == SEQ[offset : offset + 70_000], f"at {offset} there are other bytes")
        expect_equal("the end", await process.read("stdout", len(SEQ), 10), b"")
        expect_equal("stderr", await process.read("stderr", 1, 2), b"rr")


@registry.check()
async def z10_what_was_never_written_is_a_typed_error(setup: Setup) -> None:
    """An offset that is one too high is no empty answer."""
    async with setup.sandbox() as sandbox:
        process = await sandbox.start("printf 12345; sleep 300")
        await process.__anext__()
        error = await expect_raises(OutputRangeError, process.read("stdout", 6), names="0-5")
        expect_equal("stream and range", (error.stream, error.kept), ("stdout", ((0, 5),)))
        await expect_raises(OutputRangeError, sandbox.attach(process.exec_id, stderr_offset=1))
        await process.kill()


@registry.check()
async def z10_block_makes_the_program_wait_and_loses_nothing(setup: Setup) -> None:
    """It runs on when somebody reads."""
    async with setup.sandbox() as sandbox:
        process = await sandbox.start(
            "seq 1 1000000; echo over >&2", output="block", output_window_bytes=65_536
        )
        await asyncio.sleep(1)
        expect(not await _ended(sandbox, process.exec_id), "it did not wait for its reader")
        seen = b"".join([each.data async for each in process if each.stream == "stdout"])
        expect(seen == SEQ, "other bytes were read than written")
        expect_equal("the exit code", (await process.wait()).exit_code, 0)


@registry.check()
async def z10_drop_oldest_never_waits_and_says_what_is_left(setup: Setup) -> None:
    """The newest bytes are kept, their offsets are right, and the rest is a typed error."""
    window = 100_000
    async with setup.sandbox() as sandbox:
        process = await sandbox.start(
            "seq 1 1000000", output="drop_oldest", output_window_bytes=window
        )
        await _wait_for_the_end(sandbox, process.exec_id)
        error = await expect_raises(OutputRangeError, process.read("stdout", 0))
        expect_equal("parts that are kept", len(error.kept), 1)
        start, end = error.kept[0]
        expect_equal("the end of what is kept", end, len(SEQ))
        expect(end - start >= window, f"only {end - start} bytes are kept")
        expect((await process.read("stdout", start)) == SEQ[start:], "other bytes are kept")
        await expect_raises(
            OutputRangeError, sandbox.attach(process.exec_id, stdout_offset=start - 1)
        )
        result = await process.wait()
        expect(result.truncated, "the result does not say that bytes are missing")
        expect(result.stdout_bytes == SEQ[start:], "the result has other bytes")
        expect_equal("the total", result.stdout_total_bytes, len(SEQ))
        expect_equal("the hash", result.stdout_sha256, hashlib.sha256(SEQ).hexdigest())
        expect(f"[... {start} bytes not kept ...]" in result.stdout, "the text has no marker")


@registry.check()
async def z10_head_and_tail_of_a_run_can_be_read_and_the_gap_is_a_typed_error(
    setup: Setup,
) -> None:
    """The cap of a run means the same for who reads it later."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run("seq 1 1000000", max_output_bytes=1000)
        process = await sandbox.attach(result.exec_id)
        tail = len(SEQ) - 500
        expect_equal("the head", await process.read("stdout", 0), SEQ[:500])
        expect_equal(
            "the tail", await process.read("stdout", tail + 1, 5), SEQ[tail + 1 : tail + 6]
        )
        error = await expect_raises(OutputRangeError, process.read("stdout", 500))
        expect_equal("what is kept", error.kept, ((0, 500), (tail, len(SEQ))))
        seen = [(each.offset, each.data) async for each in process]
        expect_equal("what is iterated over", seen, [(0, SEQ[:500]), (tail, SEQ[tail:])])
        again = await process.wait()
        expect_equal("the exit code", again.exit_code, 0)


@registry.check()
async def z10_a_reader_without_offsets_begins_with_what_is_kept(setup: Setup) -> None:
    """The jump shows in the offset of the first piece."""
    async with setup.sandbox() as sandbox:
        process = await sandbox.start(
            "seq 1 1000000", output="drop_oldest", output_window_bytes=4096
        )
        await _wait_for_the_end(sandbox, process.exec_id)
        pieces = [each async for each in await sandbox.attach(process.exec_id)]
        expect(pieces[0].offset > 0, "there was no jump")
        seen = b"".join(each.data for each in pieces)
        expect(seen == SEQ[pieces[0].offset :], "other bytes were read")


@registry.check()
async def z10_an_unknown_exec_is_told_from_one_whose_result_gave_way(setup: Setup) -> None:
    """The last 1,024 results of a sandbox are kept."""
    async with setup.sandbox() as sandbox:
        await sandbox.run("true", exec_id="first")
        for _ in range(11):
            await asyncio.gather(*(sandbox.run("true") for _ in range(100)))
        await expect_raises(ExecExpiredError, sandbox.attach("first"), names="first")
        unknown = await expect_raises(ExecNotFoundError, sandbox.attach("never"), names="never")
        expect(not isinstance(unknown, ExecExpiredError), "an unknown exec is called expired")
