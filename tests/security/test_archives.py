"""Archives that an attacker has made: out of a directory of the sandbox, and onto this machine."""

from __future__ import annotations

import contextlib
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from sandboxd import ArchiveRefusedError, AsyncSandbox, DiskFullError, FileError, Limits
from sandboxd.client._local_trees import unpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def _archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def _refuse(*names: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """A harmless member, then those that are not."""
    members = [
        (_member(name, kind, link), b"evil" if kind == tarfile.REGTYPE else b"") for name in names
    ]
    return _archive((_member("first"), b"good"), *members, (_member("last"), b"never"))


def _through_link(target: str) -> bytes:
    return _archive(
        (_member("first"), b"good"),
        (_member("link", tarfile.SYMTYPE, target), b""),
        (_member("link/evil"), b"evil"),
    )


ESCAPES: dict[str, tuple[bytes, str]] = {
    "dots": (_refuse("../evil"), "../evil"),
    "dots inside": (_refuse("a/../../evil"), "a/../../evil"),
    "dots that come back": (_refuse("../t/evil"), "../t/evil"),
    "absolute": (_refuse("/tmp/evil"), "/tmp/evil"),
    "long dots": (_refuse("x" * 150 + "/../../evil"), "/../../evil"),
    "own link": (_through_link(".."), "link/evil"),
    "own absolute link": (_through_link("/tmp"), "link/evil"),
    "own link to itself": (_through_link("."), "link/evil"),
    "planted link": (_refuse("planted/evil"), "planted/evil"),
    "planted link deep": (_refuse("planted/a/b/evil"), "planted/a/b/evil"),
    "a directory through a link": (_refuse("planted", kind=tarfile.DIRTYPE), "planted"),
    "a directory in a link": (_refuse("planted/d", kind=tarfile.DIRTYPE), "planted/d"),
    "a link in a link": (_refuse("planted/l", kind=tarfile.SYMTYPE, link="x"), "planted/l"),
    "hard link out": (_refuse("hard", kind=tarfile.LNKTYPE, link="../secret"), "hard"),
    "hard link absolute": (_refuse("hard", kind=tarfile.LNKTYPE, link="/tmp/secret"), "hard"),
    "hard link through a link": (
        _refuse("hard", kind=tarfile.LNKTYPE, link="planted/secret"),
        "hard",
    ),
    "a file as a directory": (_refuse("first/evil"), "first/evil"),
}


@pytest.mark.parametrize("attack", ESCAPES)
async def test_a_member_that_leads_out_is_named_and_nothing_is_written(
    sandbox: AsyncSandbox, attack: str
) -> None:
    archive, name = ESCAPES[attack]
    await sandbox.run("mkdir -p /tmp/t; echo secret > /tmp/secret; ln -s /tmp /tmp/t/planted")

    with pytest.raises(ArchiveRefusedError, match="leads") as refused:
        await sandbox.files.write_archive("/tmp/t", archive, user="root")

    assert refused.value.reason == "escapes"
    assert name in str(refused.value)
    assert refused.value.may_have_run
    # What came before is there, and the message says how much that is.
    assert "members before it were unpacked" in str(refused.value)
    assert await sandbox.files.read_text("/tmp/t/first") == "good"
    left = await sandbox.run("ls /tmp; cat /tmp/secret; ls /tmp/t/last 2>&1 | grep -c 'No such'")
    assert left.stdout == "secret\nt\nsecret\n1\n"


KINDS: dict[str, tuple[tarfile.TarInfo, str]] = {
    "character device": (_member("null", tarfile.CHRTYPE), "device"),
    "block device": (_member("disk", tarfile.BLKTYPE), "device"),
    "unknown": (_member("what", b"Z"), "kind"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_devices_and_unknown_kinds_are_refused_by_name(
    sandbox: AsyncSandbox, kind: str
) -> None:
    member, reason = KINDS[kind]

    with pytest.raises(ArchiveRefusedError, match=member.name) as refused:
        await sandbox.files.write_archive("/tmp/t", _archive((member, b"")))

    assert refused.value.reason == reason
    assert (await sandbox.run("ls -A /tmp/t")).stdout == ""


GOOD = _archive((_member("a"), b"a" * 2_000), (_member("b"), b"b" * 2_000))


def _with_size(field: bytes) -> bytes:
    header = bytearray(GOOD[:512])
    header[124:136] = field.ljust(12, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + GOOD[512:]


def _pax(record: bytes) -> bytes:
    body = record.ljust((len(record) + 511) // 512 * 512, b"\0")
    member = _member("pax", tarfile.XHDTYPE)
    member.size = len(record)
    return member.tobuf(tarfile.USTAR_FORMAT) + body + GOOD


BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "truncated"),
    "cut in a header": (GOOD[:300], "truncated"),
    "cut behind a header": (GOOD[:512], "truncated"),
    "cut in a file": (GOOD[:1_500], "truncated"),
    "cut between two members": (GOOD[: 512 + 2_048], "truncated"),
    "without its end": (GOOD[: 2 * (512 + 2_048)], "truncated"),
    "garbage": (b"garbage" * 500, "malformed"),
    "gzip": (b"\x1f\x8b" + bytes(1_000), "malformed"),
    "garbage behind the end": (GOOD + b"x" * 512, "malformed"),
    "a wrong checksum": (b"x" + GOOD[1:], "malformed"),
    "a negative size": (_with_size(b"\xff" * 12), "malformed"),
    "a size of 2**95": (_with_size(b"\x80" + b"\xff" * 11), "malformed"),
    "a size that is no number": (_with_size(b"99999999999"), "malformed"),
    "a size above what there is": (_with_size(b"77777777777"), "truncated"),
    "a broken record": (_pax(b"20 path=short\n"), "malformed"),
    "a negative size in a record": (_pax(b"11 size=-5\n"), "malformed"),
    "an owner that is none": (_pax(b"18 uid=4294967296\n"), "owner"),
    "a path with NUL": (_pax(b"11 path=a\0\n"), "malformed"),
    "a path of a megabyte": (_pax(b"%d path=%s\n" % (1_000_014, b"x" * 1_000_000)), "malformed"),
    "a map of holes without end": (
        _pax(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"),
        "malformed",
    ),
}


@pytest.mark.parametrize("attack", BROKEN)
async def test_what_is_no_whole_archive_is_refused(sandbox: AsyncSandbox, attack: str) -> None:
    archive, reason = BROKEN[attack]

    with pytest.raises(FileError) as refused:
        await sandbox.files.write_archive("/tmp/t", archive)

    assert (type(refused.value).__name__, refused.value.reason) == ("ArchiveRefusedError", reason)
    # Nothing half: each file that is there is whole.
    for entry in await sandbox.files.list("/tmp/t"):
        assert entry.size == 2_000, entry


@pytest.mark.needs("limit.disk")
async def test_a_huge_member_fills_the_disk_and_leaves_nothing_of_itself() -> None:
    def endless() -> object:
        member = _member("huge")
        member.size = 1 << 40
        yield member.tobuf(tarfile.PAX_FORMAT)
        for _ in range(200):
            yield bytes(1 << 20)

    async with AsyncSandbox(limits=Limits(disk=64 << 20)) as sandbox:
        with pytest.raises(DiskFullError, match="huge"):
            await sandbox.files.write_archive("/tmp/t", endless())  # type: ignore[arg-type]  # (bytes)
        assert (await sandbox.run("ls -A /tmp/t; head -c 50M /dev/zero > /tmp/f")).ok


async def test_a_directory_is_not_replaced_by_a_file_nor_left_for_a_link(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.run("mkdir -p /tmp/t/d; echo kept > /tmp/t/d/f")

    for member in (_member("d"), _member("d", tarfile.SYMTYPE, "/")):
        with pytest.raises(FileError, match="d"):
            await sandbox.files.write_archive("/tmp/t", _archive((member, b"")))
    assert await sandbox.files.read_text("/tmp/t/d/f") == "kept\n"


async def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.run("mkdir /tmp/t; echo secret > /tmp/secret; ln -s ../secret /tmp/t/f")

    await sandbox.files.write_archive("/tmp/t", _archive((_member("f"), b"new")))

    assert (await sandbox.run("cat /tmp/secret /tmp/t/f; stat -c %F /tmp/t/f")).stdout == (
        "secret\nnewregular file\n"
    )


SWAP = """
import ctypes, os, sys
os.makedirs("/tmp/t/d"); os.makedirs("/tmp/out")
open("/tmp/t/d/f", "w").write("inside")
os.symlink("/tmp/out", "/tmp/t/evil")
libc = ctypes.CDLL(None, use_errno=True)
HERE, EXCHANGE = -100, 2
print("go", flush=True)
while libc.renameat2(HERE, b"/tmp/t/d", HERE, b"/tmp/t/evil", EXCHANGE) == 0:
    pass
"""


@pytest.mark.timeout(120)
async def test_a_directory_that_is_swapped_for_a_link_meanwhile_leads_nowhere(
    sandbox: AsyncSandbox,
) -> None:
    swapper = await sandbox.start(["python3", "-c", SWAP])
    assert (await swapper.__aiter__().__anext__()).data == b"go\n"
    archive = _archive(*((_member(f"d/n{n}"), b"x") for n in range(20)))
    await sandbox.run("echo secret > /tmp/out/secret")

    unpacked = packed = 0
    for _ in range(60):
        try:
            await sandbox.files.write_archive("/tmp/t", archive)
            unpacked += 1
        except FileError:
            pass
        content = b""
        try:
            async for chunk in await sandbox.files.read_archive("/tmp/t"):
                content += chunk
            packed += 1
        except FileError:
            pass
        assert b"secret\n" not in content
    await swapper.kill()

    assert unpacked + packed > 0
    assert (await sandbox.run("ls /tmp/out")).stdout == "secret\n"


@pytest.mark.parametrize(
    "attack",
    {
        "dots": lambda: _archive((_member("../evil"), b"evil")),
        "absolute": lambda: _archive((_member("/tmp/evil-absolute"), b"evil")),
        "link": lambda: _archive(
            (_member("l", tarfile.SYMTYPE, ".."), b""), (_member("l/evil"), b"evil")
        ),
        "hard link": lambda: _archive(
            (_member("h", tarfile.LNKTYPE, "../secret"), b""), (_member("h"), b"evil")
        ),
        "planted": lambda: _archive((_member("planted/evil"), b"evil")),
    }.values(),
)
def test_an_archive_of_a_lying_sandbox_writes_nothing_outside_on_this_machine(
    tmp_path: Path, attack: Callable[[], bytes]
) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "planted").symlink_to("..")

    with contextlib.suppress(ArchiveRefusedError, OSError):
        unpack(io.BytesIO(attack()), folder)

    assert sorted(each.name for each in tmp_path.iterdir()) == ["secret", "t"]
    assert (tmp_path / "secret").read_text() == "secret"
