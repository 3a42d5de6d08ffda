"""Files.

A file call that returned has happened, all of it, for any name and any size; nobody ever sees
half a file; no path leads out of the sandbox.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

from sandboxd import (
    NotARegularFileError,
    SandboxFileNotFoundError,
    SandboxIsADirectoryError,
)
from sandboxd.testing.check import Registry, at_once, expect, expect_equal, expect_raises

if TYPE_CHECKING:
    from sandboxd.testing.setup import Setup

registry = Registry()


@registry.check(seconds=180)
async def f1_a_file_of_any_size_is_written_whole_and_its_hash_is_right(setup: Setup) -> None:
    """What the call returns is what a program inside sees."""
    chance = random.Random(1)  # noqa: S311  (test data)
    async with setup.sandbox() as sandbox:
        for size in (0, 1, 18 << 10, 1 << 20, 64 << 20):
            data = chance.randbytes(size)
            written = await sandbox.files.write("/tmp/f", data)
            inside = (await sandbox.run("sha256sum < /tmp/f")).stdout[:64]
            seen = (written.size, written.sha256, inside)
            promised = hashlib.sha256(data).hexdigest()
            expect_equal(f"size and hashes of {size} bytes", seen, (size, promised, promised))
            back = await sandbox.files.read("/tmp/f")
            expect(back == data, f"{size} bytes came back as {len(back)} other ones")


@registry.check(seconds=120)
async def f7_a_command_sees_what_was_written_and_a_read_what_a_command_wrote(
    setup: Setup,
) -> None:
    """Always the new content, whatever connection carries which call."""
    async with setup.sandbox() as sandbox:

        async def one(number: int) -> tuple[str, str]:
            path = f"/tmp/f{number % 16}-{number}"
            await sandbox.files.write(path, f"sdk {number}")
            seen = (await sandbox.run(["cat", path])).stdout
            await sandbox.run(f"echo -n command {number} > {path}")
            return seen, await sandbox.files.read_text(path)

        seen = await at_once(1000, 8, one)
        expect_equal("what was seen", seen, [(f"sdk {n}", f"command {n}") for n in range(1000)])


@registry.check()
async def f_every_name_that_the_kernel_takes_works(setup: Setup) -> None:
    """Spaces, quotes, newlines, leading dashes, text that is no UTF-8, 255 bytes."""
    names = [b"a b", b"a'b\"c", b"new\nline", b"-rf", b"\xff\xfe", b"x" * 255, "häßlich".encode()]
    async with setup.sandbox() as sandbox:
        for name in names:
            await sandbox.files.write(b"/tmp/names/" + name, name)
            back = await sandbox.files.read(b"/tmp/names/" + name)
            expect_equal(f"the content of {name!r}", back, name)
        listed = await sandbox.files.list("/tmp/names")
        expect_equal("the number of names", len(listed), len(names))


@registry.check()
async def f_a_range_is_read_without_the_rest(setup: Setup) -> None:
    """Offset and length count bytes; beyond the end there is nothing."""
    async with setup.sandbox() as sandbox:
        await sandbox.files.write("/tmp/f", bytes(range(256)))
        ranges = {(0, 10): bytes(range(10)), (250, 99): bytes(range(250, 256)), (999, 1): b""}
        for (offset, length), promised in ranges.items():
            seen = await sandbox.files.read("/tmp/f", offset=offset, length=length)
            expect_equal(f"{length} bytes from {offset}", seen, promised)


@registry.check(seconds=120)
async def f_a_source_of_any_kind_arrives_whole(setup: Setup) -> None:
    """Content that comes piece by piece, and goes back so, is never in memory as a whole."""
    pieces = [bytes([n % 256]) * 700_001 for n in range(30)]
    promised = hashlib.sha256(b"".join(pieces)).hexdigest()
    async with setup.sandbox() as sandbox:
        written = await sandbox.files.write("/tmp/f", iter(pieces))
        inside = (await sandbox.run("sha256sum < /tmp/f")).stdout[:64]
        back = hashlib.sha256()
        async for chunk in await sandbox.files.stream("/tmp/f"):
            back.update(chunk)
        seen = (written.size, written.sha256, inside, back.hexdigest())
        expect_equal("size and hashes", seen, (30 * 700_001, promised, promised, promised))
        tail = await sandbox.files.read("/tmp/f", offset=-5)
        expect_equal("the last five bytes", tail, pieces[-1][-5:])


@registry.check()
async def f_a_directory_is_the_same_after_its_way_through_an_archive(setup: Setup) -> None:
    """Names, kinds, permissions, times, links and holes, as a program inside sees them."""
    made = """
mkdir -p /tmp/t/d/empty; cd /tmp/t; printf hello > d/f; chmod 4750 d/f; ln d/f hard; ln -s d/f sym
printf x > '.with spaces'; truncate -s 1M sparse; printf end >> sparse; chmod 1777 d/empty
touch -d '2001-02-03 04:05:06.789' d/f d
"""
    look = "find . -mindepth 1 ! -name d -printf '%P %y %m %s %T@ %l %n\\n' | sort; cat d/f"
    async with setup.sandbox() as sandbox:
        expect((await sandbox.run(made)).ok, "the directory could not be made")
        archive = await sandbox.files.read_archive("/tmp/t")
        data = b"".join([chunk async for chunk in archive])
        result = await sandbox.files.write_archive("/tmp/u", data)
        expect_equal("members", result.entries, archive.entries)
        first, second = [
            (await sandbox.run(look.replace("%s %T", "%T"), cwd=place)).stdout_bytes
            for place in ("/tmp/t", "/tmp/u")
        ]
        expect_equal("what is there", second, first)


@registry.check()
async def f_kinds_modes_and_targets_are_those_that_a_program_sees(setup: Setup) -> None:
    """Stat follows a link when asked to, and says what it is when not."""
    async with setup.sandbox() as sandbox:
        await sandbox.files.mkdir("/tmp/t/sub", parents=True, mode=0o750)
        await sandbox.files.write("/tmp/t/file", "12345", mode=0o640)
        await sandbox.run("ln -s file /tmp/t/link; mkfifo /tmp/t/pipe")
        entries = {each.name: each for each in await sandbox.files.list("/tmp/t")}
        kinds = {name: str(entry.kind) for name, entry in entries.items()}
        promised = {"file": "file", "link": "symlink", "pipe": "other", "sub": "directory"}
        expect_equal("the kinds", kinds, promised)
        file = await sandbox.files.stat("/tmp/t/link")
        expect_equal("size and mode", (file.size, file.mode & 0o7777), (5, 0o640))
        link = await sandbox.files.stat("/tmp/t/link", follow=False)
        expect_equal("kind and target", (str(link.kind), link.target), ("symlink", "file"))


@registry.check()
async def f_a_call_that_cannot_be_done_names_why_and_changes_nothing(setup: Setup) -> None:
    """A missing file, a directory, a pipe: each its own error, and none of them a hang."""
    async with setup.sandbox() as sandbox:
        await sandbox.run("mkdir -p /tmp/d/e; mkfifo /tmp/pipe")
        files = sandbox.files
        await expect_raises(SandboxFileNotFoundError, files.read("/nope"), names="/nope")
        await expect_raises(SandboxIsADirectoryError, files.read("/tmp/d"), names="/tmp/d")
        await expect_raises(NotARegularFileError, files.read("/tmp/pipe"), names="/tmp/pipe")
        await files.remove("/tmp/d", recursive=True)
        gone = await sandbox.run("test -e /tmp/d")
        expect_equal("whether /tmp/d exists", gone.exit_code, 1)
