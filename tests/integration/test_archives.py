"""Directories as tar streams: what GNU tar and Python's tarfile say is what is right."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox, Sandbox, SandboxNotADirectoryError
from tests.support import reference

if TYPE_CHECKING:
    from collections.abc import Iterable

TREE = r"""
mkdir -p t/empty t/d/e t/.hidden
cd t
printf hello > d/file
printf 'with spaces' > 'a b'
printf x > "$(printf 'new\nline')"
printf y > "$(printf 'not\377utf8')"
printf z > häßlich
printf dot > .hidden/.dotfile
name=$(printf 'n%.0s' $(seq 1 200))
printf long > "$name"
mkdir -p "$name.d/$name"
printf longer > "$name.d/$name/$name"
ln -s d/file relative
ln -s /etc/passwd absolute
ln -s "$name.d/$name/$name" longlink
ln d/file d/hard
chmod 4755 d/file
chmod 1777 d/e
chmod 0500 .hidden
mkfifo pipe
truncate -s 3M sparse
printf middle | dd of=sparse bs=1 seek=1500000 conv=notrunc 2>/dev/null
printf end >> sparse
: > nothing
touch -d '2001-02-03 04:05:06.789012345' d/file
touch -d '1960-01-01 00:00:00.5' old
touch -d '2001-02-03 04:05:06' d
"""

LIST = r"find . -mindepth 1 -printf '%P|%y|%m|%s|%T@|%l|%n\0' | sort -z"


def _listing(folder: Path) -> bytes:
    return subprocess.run(["sh", "-c", LIST], cwd=folder, stdout=subprocess.PIPE, check=True).stdout


def _without_sizes(listing: bytes) -> list[bytes]:
    """A directory's size and number of names are the file system's own business."""
    kept = []
    for line in listing.split(b"\0"):
        fields = line.split(b"|")
        if len(fields) > 1 and fields[1] == b"d":
            fields[3] = fields[6] = b""
        if len(fields) > 1 and fields[1] == b"l":
            fields[2] = b""
        kept.append(b"|".join(fields))
    return kept


def _members(archive: bytes) -> list[tuple[object, ...]]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        found = []
        for member in opened:
            name = member.name.removeprefix("./")
            # Which of several names is the file and which the links is the writer's choice.
            is_file = member.isreg() or member.islnk()
            content = opened.extractfile(member) if is_file else None
            data = content.read() if content else b""
            kind = b"0" if is_file else member.type
            link = member.linkname if member.issym() else ""
            # Python keeps a time as a float.
            time = round(float(member.mtime), 5)
            found.append((name, kind, member.mode, member.uid, member.gid, time, link, data))
        return sorted(found, key=repr)


async def _read(sandbox: AsyncSandbox, path: str) -> bytes:
    archive = await sandbox.files.read_archive(path)
    return b"".join([chunk async for chunk in archive])


@pytest.mark.needs("user.range")
async def test_an_archive_has_what_gnu_tar_puts_into_one(sandbox: AsyncSandbox) -> None:
    made = await sandbox.run(f"cd /tmp; {TREE} chown -h 12:34 'a b' relative")
    assert made.ok, made.stderr
    theirs = await sandbox.run("tar --format=pax -C /tmp/t -cf /tmp/theirs.tar . 2>&1")
    assert theirs.ok, theirs.stdout

    ours = await _read(sandbox, "/tmp/t")

    assert _members(ours) == _members(await sandbox.files.read("/tmp/theirs.tar"))
    # GNU tar finds nothing to complain of, and as many members.
    names = reference.output(["tar", "-tf", "-", "--quoting-style=escape"], ours).splitlines()
    archive = await sandbox.files.read_archive("/tmp/t")
    assert sum([len(chunk) async for chunk in archive]) == len(ours)
    assert (archive.entries, archive.skipped) == (len(names), 0)


@pytest.mark.parametrize(
    "options",
    [
        ["--format=pax"],
        ["--format=pax", "--sparse", "--sparse-version=1.0"],
        ["--format=pax", "--sparse", "--sparse-version=0.1"],
        ["--format=pax", "--sparse", "--sparse-version=0.0"],
        ["--format=gnu"],
        ["--format=gnu", "--sparse"],
        ["--format=oldgnu", "--sparse"],
    ],
    ids=" ".join,
)
async def test_what_gnu_tar_has_packed_is_unpacked_as_it_was(
    sandbox: AsyncSandbox, tmp_path: Path, options: list[str]
) -> None:
    subprocess.run(["bash", "-c", TREE], cwd=tmp_path, check=True)
    folder = tmp_path / "t"
    archive = reference.output(["tar", *options, "-C", str(folder), "-cf", "-", "."])

    result = await sandbox.files.write_archive("/tmp/t", archive, user="root")

    names = reference.output(["tar", "-tf", "-", "--quoting-style=escape"], archive).splitlines()
    assert (result.size, result.entries) == (len(archive), len(names))
    inside = await sandbox.run(LIST, cwd="/tmp/t")
    here = _without_sizes(_listing(folder))
    there = _without_sizes(inside.stdout_bytes)
    if "--format=pax" not in options:
        # Only pax keeps fractions of seconds, and times before 1970.
        here, there = ([_whole_seconds(line) for line in each] for each in (here, there))
    assert there == here
    sums = "find . -type f -print0 | sort -z | xargs -0 sha256sum"
    assert (await sandbox.run(sums, cwd="/tmp/t")).stdout_bytes == subprocess.run(
        ["sh", "-c", sums], cwd=folder, stdout=subprocess.PIPE, check=True
    ).stdout
    if "--sparse" in options:
        used = await sandbox.run(["stat", "-c", "%b", "/tmp/t/sparse"])
        assert int(used.stdout) < 1_000


def _whole_seconds(line: bytes) -> bytes:
    fields = line.split(b"|")
    if len(fields) > 4:
        fields[4] = fields[4].split(b".")[0]
    return b"|".join(fields)


async def test_an_archive_of_an_archive_is_the_same(sandbox: AsyncSandbox) -> None:
    assert (await sandbox.run(f"cd /tmp; {TREE}")).ok

    first = await _read(sandbox, "/tmp/t")
    # In pieces that cut every header somewhere.
    await sandbox.files.write_archive(
        "/tmp/u", (first[n : n + 777] for n in range(0, len(first), 777))
    )
    second = await _read(sandbox, "/tmp/u")

    assert second == first
    used = await sandbox.run("du -k /tmp/t/sparse /tmp/u/sparse | cut -f 1")
    assert all(int(size) < 500 for size in used.stdout.split())


async def test_an_archive_of_a_file_has_that_alone(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("/tmp/f", "content", mode=0o640)

    archive = await _read(sandbox, "/tmp/f")

    assert [(name, mode, data) for name, _, mode, *_, data in _members(archive)] == [
        ("f", 0o640, b"content")
    ]


async def test_a_directory_of_this_machine_comes_back_as_it_went(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    subprocess.run(["bash", "-c", TREE], cwd=tmp_path, check=True)
    folder, back = tmp_path / "t", tmp_path / "back"
    # What a copy back does not keep, for the safety of this machine.
    (folder / "absolute").unlink()
    (folder / "pipe").unlink()
    (folder / "d" / "file").chmod(0o755)
    (folder / "d" / "e").chmod(0o755)
    (folder / ".hidden").chmod(0o700)

    up = await sandbox.files.upload_dir(folder, "/tmp/t")
    owners = await sandbox.run("find /tmp/t -not -user 0")
    down = await sandbox.files.download_dir("/tmp/t", back)

    assert owners.stdout == ""
    assert (up.skipped, down.skipped) == ((), ())
    assert up.entries == down.entries == len(_listing(folder).split(b"\0"))
    # Python keeps a time as a float.
    assert [_whole_seconds(line) for line in _without_sizes(_listing(back))] == [
        _whole_seconds(line) for line in _without_sizes(_listing(folder))
    ]
    assert (back / "sparse").read_bytes() == (folder / "sparse").read_bytes()


def test_the_blocking_form_copies_directories_too(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a").mkdir(parents=True)
    (source / "a" / "f").write_text("x")
    with Sandbox() as sandbox:
        sandbox.files.upload_dir(source, "/tmp/t")
        sandbox.files.download_dir("/tmp/t", tmp_path / "back")
        archive = b"".join(sandbox.files.read_archive("/tmp/t"))
        assert sandbox.files.write_archive("/tmp/u", archive).entries == 3
        with pytest.raises(SandboxNotADirectoryError):
            sandbox.files.download_dir("/tmp/t/a/f", tmp_path / "other")
    assert (tmp_path / "back" / "a" / "f").read_text() == "x"


async def test_a_link_that_leads_out_is_left_in_the_sandbox(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    made = """
mkdir -p t/a/b
cd t
ln -s / root; ln -s ../../.. a/b/out; ln -s .. up; ln -s a/../../x a/twisted
ln -s . a/dot; ln -s a/dot/../.. chain
ln -s ../b/f a/b/inside; ln -s a short
mknod fifo p
"""
    assert (await sandbox.run(f"cd /tmp; {made}")).ok

    result = await sandbox.files.download_dir("/tmp/t", tmp_path / "t")

    out = {"root", "a/b/out", "up", "a/twisted", "chain", "fifo"}
    assert set(result.skipped) == out
    for link in _links(tmp_path / "t"):
        assert os.path.realpath(link).startswith(str(tmp_path / "t"))


def _links(folder: Path) -> Iterable[Path]:
    return [each for each in folder.rglob("*") if each.is_symlink()]
