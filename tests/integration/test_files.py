"""Files through the SDK: sizes, owners, whole or not at all."""

from __future__ import annotations

import asyncio
import random

import pytest

from sandboxd import AsyncSandbox, Limits
from tests.support import reference


@pytest.mark.parametrize("size", [28 << 20, pytest.param(1 << 30, marks=pytest.mark.soak)])
@pytest.mark.timeout(600)
async def test_f3_a_big_file_and_a_big_stdin_have_the_right_hash(size: int) -> None:
    data = random.Random(3).randbytes(size)
    async with AsyncSandbox(limits=Limits(disk=4 * size)) as sandbox:
        written = await sandbox.files.write("/tmp/f", data)
        process = await sandbox.start("cat > /tmp/g", stdin=True)
        for start in range(0, size, 1 << 20):
            await process.write_stdin(data[start : start + (1 << 20)])
        await process.close_stdin()
        assert (await process.wait()).exit_code == 0
        inside = (await sandbox.run("cat /tmp/f | sha256sum; sha256sum < /tmp/g")).stdout.split()

    right = reference.sha256sum(data)
    assert (written.sha256, inside[0], inside[2]) == (right, right, right)


async def test_a_written_file_belongs_to_root_and_replacing_keeps_its_mode(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.files.write("/tmp/script", "#!/bin/sh\necho 1\n", mode=0o755)
    await sandbox.files.write("/tmp/script", "#!/bin/sh\necho 2\n")

    assert (await sandbox.run(["/tmp/script"])).stdout == "2\n"
    assert (await sandbox.run("stat -c '%u %g %a' /tmp/script")).stdout == "0 0 755\n"


@pytest.mark.needs("user.range")
async def test_a_file_can_be_written_for_another_user(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("/tmp/his", "x", user="nobody", mode=0o600)

    assert (await sandbox.run("cat /tmp/his", user="nobody")).stdout == "x"
    assert (await sandbox.run("stat -c %u /tmp/his")).stdout == "65534\n"


async def test_a_relative_path_starts_at_the_working_directory() -> None:
    async with AsyncSandbox(cwd="/srv") as sandbox:
        await sandbox.files.write("a/b", "x")
        assert (await sandbox.run("cat /srv/a/b")).stdout == "x"
        assert await sandbox.files.read_text("a/b") == "x"


@pytest.mark.needs("user.range")
async def test_what_the_template_has_can_be_changed_for_this_sandbox_alone(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.files.write("/usr/bin/true", "#!/bin/sh\nexit 9\n", mode=0o755)
    await sandbox.run("rm /usr/bin/false")

    assert (await sandbox.run(["true"])).exit_code == 9
    async with AsyncSandbox() as other:
        codes = [(await other.run([name])).exit_code for name in ("true", "false")]
    assert codes == [0, 1]


async def test_many_reads_and_writes_at_once_do_not_mix(sandbox: AsyncSandbox) -> None:
    async def one(number: int) -> bool:
        data = random.Random(number).randbytes(300_000)
        await sandbox.files.write(f"/tmp/{number}", data)
        return await sandbox.files.read(f"/tmp/{number}") == data

    assert all(await asyncio.gather(*(one(number) for number in range(40))))
