"""Attacks on the work of PID 1.

A program that starves it, or hides things from it, must not make its own failure look like one of
the infrastructure.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from sandboxd import Cause
from tests.support.attacks import attack

if TYPE_CHECKING:
    from sandboxd import AsyncSandbox

GRACE = 3.0
"""Seconds after a deadline. Generous: what is wrong takes ten and more, and loses the sandbox."""

LEASE = (
    "import fcntl, os, signal, time\n"
    "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
    "fcntl.fcntl(os.open('/tmp/program', os.O_RDWR), 1024, fcntl.F_WRLCK)\n"
    "time.sleep(60)\n"
)

SEIZE = (
    "import ctypes, os, time\n"
    "ptrace = ctypes.CDLL(None).ptrace\n"
    "ptrace.argtypes = [ctypes.c_long] * 4\n"
    "seen = {1, os.getpid()}\n"
    "print('up', flush=True)\n"
    "while True:\n"
    "    for name in os.listdir('/proc'):\n"
    "        if name.isdigit() and int(name) not in seen:\n"
    "            seen.add(int(name))\n"
    "            ptrace(0x4206, int(name), 0, 0)\n"
    "    time.sleep(0.001)\n"
)


async def test_taking_init_its_descriptors_by_a_limit_is_refused(sandbox: AsyncSandbox) -> None:
    """Root inside has the same ids as init: the kernel alone would let it."""
    seen = await attack(
        sandbox,
        "import resource\n"
        "tell([attempt(resource.prlimit, 1, which, (0, 0)) for which in range(16)])",
    )
    assert set(seen) == {"EPERM"}
    assert (await sandbox.run("true")).ok


async def test_a_lease_on_a_program_does_not_make_init_wait_for_its_holder(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.files.write("/tmp/lease.py", LEASE)
    await sandbox.run("cp /bin/true /tmp/program")
    holder = await sandbox.run(["python3", "/tmp/lease.py"], timeout=5)
    assert "PermissionError" in holder.stderr
    assert (await sandbox.run(["/tmp/program"], timeout=5)).ok


async def test_a_tracer_in_another_exec_cannot_keep_an_end_from_its_caller(
    sandbox: AsyncSandbox,
) -> None:
    """A dead process that is traced is shown to its tracer first, who here never looks."""
    await sandbox.files.write("/tmp/seize.py", SEIZE)
    tracer = await sandbox.start(["python3", "/tmp/seize.py"])
    async for output in tracer:
        assert output.data == b"up\n"
        break
    begin = time.monotonic()
    ended = await asyncio.wait_for(sandbox.run("sleep 30", timeout=1), 1 + GRACE)
    assert ended.cause is Cause.TIMEOUT
    assert time.monotonic() - begin < 1 + GRACE
    assert (await sandbox.run("echo on", timeout=5)).stdout == "on\n"
