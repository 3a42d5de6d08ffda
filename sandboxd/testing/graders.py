"""Graders.

Files that are written with `protected=True` are seen by commands with `grader=True` and by nothing
else, and nothing that was left running or lying in the sandbox changes what such a command does.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING

from sandboxd import (
    Cause,
    DiskFullError,
    ExecFailedError,
    InvalidArgumentError,
    SandboxFileNotFoundError,
)
from sandboxd.testing.check import Registry, expect, expect_equal, expect_raises

if TYPE_CHECKING:
    from sandboxd.testing.setup import Setup

registry = Registry()

SECRET = b"assert answer() == 54321987\n"
PROMISED = hashlib.sha256(SECRET).hexdigest()
HASH = "sha256sum < {path} | cut -c1-64"


@registry.check("grader")
async def z13_a_grader_sees_protected_files_and_nothing_else_does(setup: Setup) -> None:
    """Neither before nor after, by no name, also through the files API."""
    async with setup.sandbox() as sandbox:
        looks = "cat /tests/t.py; ls -A /tests; find / -xdev -name 't.py*'; ls -A /"
        before = (await sandbox.run(looks)).stdout
        written = await sandbox.files.write("/tests/t.py", SECRET, protected=True)
        expect_equal("hash that the write returns", written.sha256, PROMISED)
        for _ in range(2):
            seen = (await sandbox.run(HASH.format(path="/tests/t.py"), grader=True)).stdout.strip()
            expect_equal("hash that a grader sees", seen, PROMISED)
            expect_equal("what a command sees", (await sandbox.run(looks)).stdout, before)
        await expect_raises(SandboxFileNotFoundError, sandbox.files.read("/tests/t.py"))


@registry.check("grader")
async def z13_what_is_planted_at_a_path_neither_redirects_nor_replaces(setup: Setup) -> None:
    """Links and files, at the path itself and above it, before and after the write."""
    plant = """
mkdir -p /loot /tests/b; cd /tests
ln -s /loot a; ln -s /loot/c c.py; mkdir d.py; echo fake > b/e.py; ln -s / f; mkfifo g.py
ln -sfn /loot /linked; echo fake > /file
"""
    paths = ["a/t.py", "c.py", "d.py", "b/e.py", "f/tests/h.py", "g.py"]
    async with setup.sandbox() as sandbox:
        targets = [f"/tests/{path}" for path in paths] + ["/linked/t.py", "/file/t.py"]
        await sandbox.run("mkdir /early; ln -s /loot /early/a")
        await sandbox.run(plant)
        for target in targets:
            await sandbox.files.write(target, SECRET, protected=True)
        await sandbox.run(f"rm -rf /tests; {plant}")
        for target in targets:
            seen = await sandbox.run(HASH.format(path=target), grader=True)
            expect_equal(f"hash of {target}", seen.stdout.strip(), PROMISED)
        expect_equal("what was redirected", (await sandbox.run("ls -A /loot")).stdout, "")


@registry.check("grader")
async def z13_a_grader_sees_the_sandbox_as_it_is_and_leaves_it_so(setup: Setup) -> None:
    """Made, changed, replaced and removed files; what the grader writes is gone with it."""
    async with setup.sandbox() as sandbox:
        await sandbox.run("""
mkdir -p /work/old/deep; echo 1 > /work/old/deep/f; echo mine > /work/mine; chown 7:8 /work/mine
rm -r /work/old; mkdir /work/old; echo 2 > /work/old/g; rm -r /var/cache; echo x >> /srv/x
chmod 640 /work/mine; ln -s mine /work/link; ln /work/mine /work/hard; rm -r /opt; ln -s /work /opt
""")
        look = "cd /; find work var opt srv tmp root -printf '%p %y %m %U:%G %s %l\\n' | sort"
        before = (await sandbox.run(look)).stdout
        seen = (await sandbox.run(look, grader=True)).stdout
        expect_equal("what a grader sees", seen, before)
        spoil = "rm -r /work/* /srv; echo y > /tmp/y; mkdir /new; echo z > /root/z; ls -A /work"
        spoiled = await sandbox.run(spoil, grader=True)
        expect_equal("its view after what it did", (spoiled.ok, spoiled.stdout), (True, ""))
        expect_equal("the sandbox afterwards", (await sandbox.run(look)).stdout, before)
        expect_equal("the next grader", (await sandbox.run(look, grader=True)).stdout, before)


@registry.check("grader")
async def z13_a_protected_directory_has_protected_files_only(setup: Setup) -> None:
    """A file that is put beside tests takes part in them; there is no beside."""
    async with setup.sandbox() as sandbox:
        await sandbox.run("mkdir -p /tests/sub; touch /tests/conftest.py /tests/sub/x.py")
        await sandbox.files.mkdir("/tests", protected=True)
        await sandbox.files.mkdir("/tests", protected=True)
        await sandbox.files.write("/tests/sub/t.py", SECRET, protected=True, mode=0o600)
        await sandbox.run("touch /tests/pytest.ini")
        found = await sandbox.run("cd /tests; find . -type f -printf '%p %m %U\\n'", grader=True)
        expect_equal("what is in it", found.stdout, "./sub/t.py 600 0\n")
        await sandbox.files.write("/work/t.py", SECRET, protected=True)
        await sandbox.run("mkdir -p /work; touch /work/solution.py")
        beside = await sandbox.run("ls /work", grader=True)
        expect_equal("what is in one that is not", beside.stdout.split(), ["solution.py", "t.py"])


@registry.check("grader")
async def z13_programs_of_a_grader_are_those_of_the_template(setup: Setup) -> None:
    """Whatever root of the sandbox does to `/usr`, `/bin` and `/etc`, the grader has its own."""
    async with setup.sandbox() as sandbox:
        look = "cat /etc/passwd; ls -la /bin /sbin /lib; ls /usr/local/bin /usr/bin /etc; id"
        before = (await sandbox.run(look, grader=True)).stdout
        await sandbox.run("""
mkdir -p /fake /usr/local/bin /usr/local/lib
printf '#!/fake/sh\\necho forged; exit 0\\n' > /usr/local/bin/sha256sum
cp /usr/local/bin/sha256sum /usr/bin/sort; chmod 755 /usr/local/bin/* /usr/bin/sort
echo /fake/evil.so > /etc/ld.so.preload; echo 'root:x:0:0::/fake:/fake/sh' > /etc/passwd
cp /bin/sh /fake/sh; cp /bin/sh /fake/cat; cp /bin/sh /fake/ls
rm /usr/bin/id /bin /sbin; ln -s /fake /bin; ln -s /fake /sbin; mv /etc /etc.old; ln -s /fake /etc
""")
        seen = await sandbox.run(look, grader=True)
        expect_equal("what a grader sees of it", (seen.stdout, seen.stderr), (before, ""))


@registry.check("grader")
async def z13_nothing_else_runs_while_a_grader_does(setup: Setup) -> None:
    """What runs already stands still; what is started waits; both go on afterwards."""
    async with setup.sandbox() as sandbox:
        ticking = await sandbox.start("while :; do echo x >> /tmp/ticks; sleep 0.01; done")
        await sandbox.run("until [ -s /tmp/ticks ]; do sleep 0.01; done")
        count = "wc -c < /tmp/ticks"
        grading = asyncio.create_task(
            sandbox.run(f"a=$({count}); sleep 1; b=$({count}); echo $a $b", grader=True)
        )
        await asyncio.sleep(0.3)
        waiting = asyncio.create_task(sandbox.run(count))
        first, second = (await grading).stdout.split()
        expect_equal("ticks during the grader", second, first)
        afterwards = int((await waiting).stdout)
        expect(afterwards >= int(first), f"{afterwards} ticks are fewer than {first}")
        await sandbox.run(f"while [ $({count}) -le {afterwards} ]; do sleep 0.01; done", timeout=20)
        await ticking.kill()


@registry.check("grader")
async def z13_everything_of_a_grader_ends_with_it(setup: Setup) -> None:
    """Also what it left in the background, however it ended."""
    leave = "(setsid sh -c 'while :; do echo x >> /tmp/grader; sleep 0.01; done' &) ; "
    async with setup.sandbox() as sandbox:
        done = await sandbox.run(leave + "echo out; echo err >&2; exit 3", grader=True)
        expect_equal("its end", (done.exit_code, done.stdout, done.stderr), (3, "out\n", "err\n"))
        late = await sandbox.run(leave + "echo out; sleep 60", grader=True, timeout=0.5)
        expect_equal("a late one", (late.cause, late.stdout), (Cause.TIMEOUT, "out\n"))
        process = await sandbox.start(leave + "sleep 60", grader=True)
        await process.kill()
        expect_equal("a cancelled one", (await process.wait()).cause, Cause.CANCELED)
        killed = await sandbox.run("kill -9 $$", grader=True)
        expect_equal("a killed one", (killed.cause, killed.signal), (Cause.SIGNALED, 9))
        outside = await setup.outside(sandbox)
        expect_equal(
            "what is left", ((await sandbox.run("ls /tmp")).stdout, outside.left()), ("", [])
        )


@registry.check("grader")
async def z13_a_deadline_holds_for_what_a_grader_has_stopped(setup: Setup) -> None:
    """The wall clock does not stop with the process; silence that is not its own is none."""
    async with setup.sandbox() as sandbox:
        talking = await sandbox.start(
            "while :; do echo; sleep 0.1; done", idle_output_timeout=1.5, timeout=60
        )
        started = time.monotonic()
        stopped = await sandbox.start("echo up; sleep 60", timeout=1.0)
        await sandbox.run("true")
        grading = asyncio.create_task(sandbox.run("sleep 3", grader=True))
        ended = await stopped.wait()
        took = time.monotonic() - started
        expect_equal("its end", (ended.cause, ended.stdout), (Cause.TIMEOUT, "up\n"))
        expect(took < 1.0 + setup.grace, f"the result came after {took:.2f} s")
        expect_equal("the grader", (await grading).cause, Cause.EXITED)
        await sandbox.run("sleep 1")
        await talking.kill()
        expect_equal("one that went on talking", (await talking.wait()).cause, Cause.CANCELED)


@registry.check("grader")
async def z13_input_and_output_of_a_grader_are_those_of_any_command(setup: Setup) -> None:
    """Standard input, user, directory, variables, and the answer to the same id again."""
    async with setup.sandbox(env={"A": "1"}) as sandbox:
        await sandbox.files.write("/work/t", SECRET, protected=True, mode=0o600, user="1234:5678")
        seen = await sandbox.run(
            "cat; pwd; id -u; echo $A$B; cat t",
            stdin="in\n",
            cwd="/work",
            user="1234:5678",
            env={"B": "2"},
            grader=True,
        )
        expect_equal("output", seen.stdout, "in\n/work\n1234\n12\n" + SECRET.decode())
        process = await sandbox.start("cat", stdin=True, grader=True)
        await process.write_stdin(b"more")
        await process.close_stdin()
        expect_equal("streamed", (await process.wait()).stdout, "more")
        failed = await expect_raises(ExecFailedError, sandbox.run(["nowhere"], grader=True))
        expect(not failed.may_have_run, "it says that it may have run")


@registry.check("grader", seconds=120)
async def z13_what_no_grader_could_find_is_refused(setup: Setup) -> None:
    """With the reason; nothing of it is there afterwards."""
    async with setup.sandbox() as sandbox:
        for path in ("/tests/../t", "/dev/shm/t", "/proc/t", "/./t"):
            write = sandbox.files.write(path, SECRET, protected=True)
            await expect_raises(InvalidArgumentError, write, names="protected")
        for path in ("/", "/usr", "/etc"):
            made = sandbox.files.mkdir(path, protected=True)
            await expect_raises(InvalidArgumentError, made, names="beneath")
        big = bytes(257 << 20)
        write = sandbox.files.write("/tests/big", big, protected=True)
        await expect_raises(DiskFullError, write, names="256 MiB")
        await sandbox.files.write("/tests/small", SECRET, protected=True)
        found = await sandbox.run("ls -A /tests", grader=True)
        expect_equal("what is there", found.stdout, "small\n")
