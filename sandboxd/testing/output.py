"""Output.

It arrives byte for byte, whole, in order and once; if it had to be shortened the result says so
and by how much; the exit event is behind all of it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sandboxd import Limits
from sandboxd.testing.check import Registry, at_once, expect, expect_equal

if TYPE_CHECKING:
    from sandboxd.testing.setup import Setup

registry = Registry()

# Of `seq 1 2000` and `seq 1 1000000`; GNU and busybox print the same.
SEQ_2000 = "".join(f"{number}\n" for number in range(1, 2001)).encode()
SEQ_MILLION_BYTES = 6_888_896


@registry.check()
async def o1_a_character_cut_in_two_writes_is_one_character(setup: Setup) -> None:
    """Text is decoded when all of it is there."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run(r"printf '\360\237'; sleep .2; printf '\230\200'")
        expect_equal("the text", result.stdout, "\U0001f600")


@registry.check()
async def o1_text_of_a_stream_has_whole_characters_however_they_were_written(setup: Setup) -> None:
    """Each stream is decoded on its own."""
    async with setup.sandbox() as sandbox:
        process = await sandbox.start(
            r"printf '\360\237'; sleep .1; printf '\303' >&2; sleep .1; printf '\230\200';"
            r"sleep .1; printf '\244' >&2; printf '\377'; sleep .1; printf 'a\342\202'"
        )
        text = {"stdout": "", "stderr": ""}
        async for piece in process.text():
            expect(piece.text != "", "a piece is empty")
            text[piece.stream] += piece.text
        expect_equal("stdout", text["stdout"], "\U0001f600\ufffda\ufffd")
        expect_equal("stderr", text["stderr"], "ä")


@registry.check()
async def o2_bytes_that_are_no_text_cost_neither_the_result_nor_themselves(setup: Setup) -> None:
    """One odd byte must not cost the sample."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run(r"printf '\377\376'; exit 3")
        expect_equal("the exit code", result.exit_code, 3)
        expect_equal("the bytes", result.stdout_bytes, b"\xff\xfe")
        expect_equal("the text", result.stdout, "\ufffd\ufffd")


@registry.check(seconds=120)
async def o6_the_same_command_has_the_same_output_every_time(setup: Setup) -> None:
    """The status never overtakes the output, at 32 at a time neither."""
    async with setup.sandbox() as sandbox:

        async def one(_: int) -> bytes:
            return (await sandbox.run("seq 1 2000")).stdout_bytes

        outputs = await at_once(1000, 32, one)
        wrong = [len(seen) for seen in outputs if seen != SEQ_2000]
        expect_equal("lengths of wrong outputs", wrong, [])


@registry.check()
async def o6_a_streamed_exec_ends_after_its_last_byte(setup: Setup) -> None:
    """Iterating ends when the exec has ended, and its end is known then."""
    async with setup.sandbox() as sandbox:

        async def one(_: int) -> tuple[bytes, int | None]:
            process = await sandbox.start("seq 1 2000; exit 9")
            data = b"".join([chunk.data async for chunk in process])
            return data, (await process.wait()).exit_code

        wrong = [len(seen) for seen, code in await at_once(100, 16, one) if seen != SEQ_2000]
        expect_equal("lengths of wrong outputs", wrong, [])


@registry.check()
async def o8_big_output_is_not_a_timeout(setup: Setup) -> None:
    """Output is read while the program runs."""
    async with setup.sandbox() as sandbox:
        result = await sandbox.run(["python3", "-c", "print('x'*10**7)"], timeout=30)
        expect_equal(
            "cause, exit code and total",
            (result.cause, result.exit_code, result.stdout_total_bytes),
            ("exited", 0, 10_000_001),
        )


@registry.check(seconds=180)
async def o9_no_message_size_limit_shows_through(setup: Setup) -> None:
    """Five million bytes are more than one message takes, half a billion more than any cap."""
    async with setup.sandbox() as sandbox:
        for total in (5_000_000, 500_000_000):
            result = await sandbox.run(f"head -c {total} /dev/zero | tr '\\0' x")
            expect_equal(
                f"exit code and total of {total} bytes",
                (result.exit_code, result.stdout_total_bytes),
                (0, total),
            )


@registry.check(seconds=300)
async def o9_a_stream_of_half_a_billion_bytes_has_the_right_hash(setup: Setup) -> None:
    """Streamed, nothing has a size limit either."""
    async with setup.sandbox() as sandbox:
        for total in (5_000_000, 500_000_000):
            process = await sandbox.start(f"head -c {total} /dev/zero | tr '\\0' x")
            seen, right = hashlib.sha256(), hashlib.sha256()
            async for chunk in process:
                seen.update(chunk.data)
                right.update(b"x" * len(chunk.data))
            result = await process.wait()
            expect_equal(
                f"exit code and total of {total} bytes",
                (result.exit_code, result.stdout_total_bytes),
                (0, total),
            )
            expect_equal(f"the hash of {total} bytes", seen.digest(), right.digest())


@registry.check(seconds=180)
async def o9_a_stream_of_any_size_arrives_byte_for_byte(setup: Setup) -> None:
    """Every byte, in order, once."""
    total = 50_000_000
    async with setup.sandbox() as sandbox:
        process = await sandbox.start(f"seq 1 100000000 | head -c {total} | tee /tmp/seen")
        seen = hashlib.sha256()
        length = 0
        async for chunk in process:
            seen.update(chunk.data)
            length += len(chunk.data)
        expect_equal("the length", length, total)
        inside = (await sandbox.run("sha256sum < /tmp/seen")).stdout[:64]
        expect_equal("the hash", seen.hexdigest(), inside)


@registry.check()
async def o10_what_is_shortened_says_so_and_keeps_head_and_tail(setup: Setup) -> None:
    """The configured cap is the one that is applied, per stream."""
    cap = 65_536
    async with setup.sandbox() as sandbox:
        result = await sandbox.run("seq 1 1000000; echo end >&2", max_output_bytes=cap)
        kept = result.stdout_bytes
        expect(result.truncated, "the result does not say that it is shortened")
        expect(len(kept) <= cap, f"{len(kept)} bytes are kept under a cap of {cap}")
        expect(kept.startswith(b"1\n2\n"), f"the head is {kept[:20]!r}")
        expect(kept.endswith(b"\n1000000\n"), f"the tail is {kept[-20:]!r}")
        expect_equal("the total", result.stdout_total_bytes, SEQ_MILLION_BYTES)
        expect_equal("stderr", result.stderr_bytes, b"end\n")
        expect_equal("the total of stderr", result.stderr_total_bytes, 4)


@registry.check()
async def o10_the_text_of_what_is_shortened_has_a_marker_and_the_bytes_have_none(
    setup: Setup,
) -> None:
    """How much is missing is in its words, and the hash is that of the whole."""
    whole = "".join(f"{number}\n" for number in range(1, 1_000_001)).encode()
    async with setup.sandbox() as sandbox:
        for cap in (0, 1, 999, 65_536):
            result = await sandbox.run("seq 1 1000000", max_output_bytes=cap)
            head, tail = cap - cap // 2, cap // 2
            start, end = whole[:head], whole[len(whole) - tail :]
            expect_equal("the bytes", result.stdout_bytes, start + end)
            marker = f"\n[... {len(whole) - cap} bytes not kept ...]\n"
            expect_equal("the text", result.stdout, start.decode() + marker + end.decode())
            expect_equal("bytes of the head", result.stdout_head_bytes, head)
            expect_equal("the hash", result.stdout_sha256, hashlib.sha256(whole).hexdigest())
        result = await sandbox.run("seq 1 2000")
        expect_equal("the text of what is whole", result.stdout.encode(), SEQ_2000)
        expect_equal("its hash", result.stdout_sha256, hashlib.sha256(SEQ_2000).hexdigest())
        expect_equal("its head", result.stdout_head_bytes, None)


@registry.check()
async def o10_what_fits_under_the_cap_is_whole_and_does_not_say_otherwise(setup: Setup) -> None:
    """The bound itself is inside."""
    async with setup.sandbox() as sandbox:
        for total, shortened in ((65_536, False), (65_537, True)):
            command = f"head -c {total} /dev/zero"
            result = await sandbox.run(command, max_output_bytes=65_536)
            expect_equal(f"truncated at {total} bytes", result.truncated, shortened)
            expect_equal(f"bytes kept of {total}", len(result.stdout_bytes), 65_536)


@registry.check()
async def o10_a_hard_output_limit_ends_the_exec_and_names_itself(setup: Setup) -> None:
    """Head and tail are a cap on what is kept, this is one on what may be written."""
    async with setup.sandbox(limits=Limits(output=1 << 20)) as sandbox:
        outside = await setup.outside(sandbox)
        result = await sandbox.run("yes")
        left = outside.left()
        expect_equal("cause and limit", (result.cause, result.limit), ("output_limit", 1 << 20))
        expect_equal("what is left", left, [])
