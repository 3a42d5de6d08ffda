"""Attacks through terminals: on another sandbox, on the agent, on who reads them."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from sandboxd import AsyncSandbox, ExecFailedError, SandboxError
from tests.support.attacks import attack


async def test_nobody_types_at_a_terminal_but_its_caller(sandbox: AsyncSandbox) -> None:
    """TIOCSTI, TIOCLINUX, and TIOCSETD, which loads drivers into the kernel."""
    code = """
import fcntl
found = [attempt(fcntl.ioctl, 0, number, b"x" * 8) for number in (0x5412, 0x541c, 0x5423)]
tell(found)
"""
    assert await attack(sandbox, code, pty=True) == ["EPERM"] * 3


async def test_the_terminals_of_another_sandbox_do_not_exist_here(sandbox: AsyncSandbox) -> None:
    """Two sandboxes have a `/dev/pts/0` each, and what is written to one is not in the other."""
    async with AsyncSandbox() as other:
        victim = await other.start("stty -echo; tty; read line; echo got $line", pty=True)
        seen = b""
        async for output in victim:
            seen += output.data
            if b"/dev/pts/0\r\n" in seen:
                break
        code = """
import glob
found = []
for path in glob.glob("/dev/pts/*") + glob.glob("/proc/*/fd/*") + ["/dev/tty", "/dev/console"]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        if "ptmx" not in path and os.isatty(descriptor):
            found.append(os.ttyname(descriptor))
            os.write(descriptor, b"INTRUDER\\n")
        os.close(descriptor)
    except OSError:
        pass
tell(sorted(set(found)))
"""
        assert await attack(sandbox, code) == []
        await attack(sandbox, code, pty=True)
        await victim.write_stdin("mine\n")
        result = await victim.wait()
    assert result.stdout == "got mine\r\n"


async def test_the_master_of_a_terminal_is_not_inside(sandbox: AsyncSandbox) -> None:
    """Whoever had it could type, and read what others type."""
    code = """
import glob
masters = [path for path in glob.glob("/proc/*/fd/*")
           if "ptmx" in str(attempt(os.readlink, path))]
tell(masters)
"""
    assert await attack(sandbox, code, pty=True) == []


async def test_a_sandbox_that_bars_its_terminals_harms_itself_only(sandbox: AsyncSandbox) -> None:
    """The agent opens what is mounted there, and never what a link or a fake leads to."""
    await sandbox.run("chmod 0 /dev/pts/ptmx; rm -f /dev/ptmx; ln -s /etc/passwd /dev/ptmx")
    try:
        line = "rm -rf /dev/pts 2>&1; mv /dev /x 2>&1; tty"
        result = await sandbox.run(line, pty=True, timeout=20)
        assert "/dev/pts/" in result.stdout
        assert "busy" in result.stdout.lower()
    except ExecFailedError as error:
        # Of an agent that is not root, whom the mode of the file holds for.
        assert error.step == "descriptor"  # noqa: PT017  (either is right)
    assert (await sandbox.run("true")).ok


async def test_a_sandbox_cannot_take_the_machines_terminals(sandbox: AsyncSandbox) -> None:
    """It has 256; the machine keeps enough for the others."""
    code = """
held = []
while len(held) < 5000:
    answer = attempt(os.open, "/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    if isinstance(answer, str):
        break
    held.append(answer)
tell([len(held), answer])
"""
    assert await attack(sandbox, code) == [256, "ENOSPC"]
    before = int(Path("/proc/sys/kernel/pty/nr").read_text())
    assert before < int(Path("/proc/sys/kernel/pty/max").read_text()) // 2
    master, slave = os.openpty()
    os.close(master)
    os.close(slave)
    async with AsyncSandbox() as other:
        assert (await other.run("tty", pty=True, timeout=20)).stdout == "/dev/pts/0\r\n"


async def test_a_terminal_that_is_stopped_or_flooded_holds_up_nobody(sandbox: AsyncSandbox) -> None:
    """Output that is stopped (Ctrl-S), endless output, input that nobody reads, a wild mode."""
    storms = (
        "python3 -c 'import termios, time; termios.tcflow(1, termios.TCOOFF); print(1)'",
        "yes",
        "stty raw -echo; sleep 60",
        'python3 -c \'import fcntl; fcntl.ioctl(0, 0x540c); open("/dev/tty", "w")\'; sleep 60',
    )
    for storm in storms:
        process = await sandbox.start(storm, pty=True, timeout=2)
        typing = asyncio.ensure_future(process.write_stdin(b"x" * 3_000_000))
        started = time.monotonic()
        assert (await sandbox.run("echo fine", pty=True, timeout=20)).stdout == "fine\r\n"
        assert time.monotonic() - started < 5
        result = await process.wait()
        assert result.cause == "timeout" or result.exit_code is not None
        typing.cancel()
        await asyncio.gather(typing, return_exceptions=True)
        assert isinstance(
            typing.exception() if not typing.cancelled() else None, SandboxError | None
        )


async def test_a_hang_up_of_the_session_does_not_lose_its_exit(sandbox: AsyncSandbox) -> None:
    """A program that drops its terminal, or takes it along, exits as any other."""
    code = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCNOTTY)
for each in (0, 1, 2):
    os.close(each)
time.sleep(0.2)
os._exit(9)
"""
    line = f"import os, time\nimport signal\nsignal.signal(1, signal.SIG_IGN)\n{code}"
    result = await sandbox.run(["python3", "-c", line], pty=True, timeout=20)
    assert (result.cause, result.exit_code) == ("exited", 9)
