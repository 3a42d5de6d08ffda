"""Attacks on the work of PID 1.

A program that starves it, or hides things from it, must not make its own failure look like one of
the infrastructure.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox, Cause, Limits
from tests.support.attacks import attack

if TYPE_CHECKING:
    from sandboxd.testing import LocalSetup

GRACE = 3.0
"""Seconds after a deadline. Generous: what is wrong takes ten and more, and loses the sandbox."""

BUSY = 400
"""Processes that want all of a processor, each."""

STORM = f"""
import os, time
ready, go = os.pipe()
for _ in range({BUSY}):
    if os.fork() == 0:
        os.close(go)
        os.read(ready, 1)
        while True: pass
print("up", flush=True)
os.close(go)
time.sleep(100)
"""

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


async def test_putting_init_behind_everybody_else_is_refused(sandbox: AsyncSandbox) -> None:
    """Whoever starves it could make a deadline look like a loss; one's own place may be changed."""
    seen = await attack(
        sandbox,
        "idle, zero = os.SCHED_IDLE, os.sched_param(0)\n"
        "tell([attempt(os.setpriority, os.PRIO_PROCESS, 1, 19),\n"
        "      attempt(os.setpriority, os.PRIO_USER, 0, 19),\n"
        "      attempt(os.sched_setscheduler, 1, idle, zero),\n"
        "      attempt(os.sched_setparam, 1, zero),\n"
        "      attempt(os.sched_setaffinity, 1, os.sched_getaffinity(0)),\n"
        "      attempt(os.sched_setscheduler, 0, idle, zero),\n"
        "      attempt(os.setpriority, os.PRIO_PROCESS, 0, 7)])",
    )
    assert seen == ["EPERM"] * 5 + [None] * 2


async def test_programs_begin_with_the_priority_of_any_process(sandbox: AsyncSandbox) -> None:
    """Init may be above them, so that it is there when it is needed."""
    shown = await sandbox.run("nice; cut -d' ' -f19 /proc/1/stat")
    own, init = map(int, shown.stdout.split())
    # That of the agent, which is that of this process.
    assert own == os.nice(0)
    assert init <= own


@pytest.mark.needs("limit.cpu", "limit.pids")
@pytest.mark.timeout(120)
async def test_deadlines_hold_with_a_small_share_and_hundreds_of_busy_processes(
    setup: LocalSetup,
) -> None:
    """Those that are killed need a processor to end, and init one to tell of it."""
    async with AsyncSandbox(limits=Limits(cpus=0.1, pids=1000)) as sandbox:
        outside = await setup.outside(sandbox)
        storm = await sandbox.start(["python3", "-c", STORM], timeout=60)
        async for output in storm:
            assert output.data == b"up\n"
            break
        begin = time.monotonic()
        beside = await sandbox.run("sleep 60", timeout=1)
        took = time.monotonic() - begin
        assert beside.cause is Cause.TIMEOUT
        assert took < 1 + GRACE

        process = await sandbox.start("sleep 60")
        begin = time.monotonic()
        await process.kill()
        assert (await process.wait()).cause is Cause.CANCELED
        assert time.monotonic() - begin < GRACE

        begin = time.monotonic()
        await storm.kill()
        assert (await storm.wait()).cause is Cause.CANCELED
        # Here every one of them has to be taken apart, on a processor that others want as well.
        assert time.monotonic() - begin < 3 * GRACE
        assert outside.left() == []
        # The share binds again.
        busy = await sandbox.run(["python3", "-c", "while True: pass"], timeout=3)
        assert busy.cpu_time < 0.3 * busy.duration


async def test_a_lease_on_a_program_does_not_make_init_wait_for_its_holder(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.files.write("/tmp/lease.py", LEASE)
    await sandbox.run("cp /bin/true /tmp/program")
    holder = await sandbox.run(["python3", "/tmp/lease.py"], timeout=5)
    assert "PermissionError" in holder.stderr
    assert (await sandbox.run(["/tmp/program"], timeout=5)).ok


IN_A_THREAD = """
import threading
code = open("/tmp/seize.py").read()
threading.Thread(target=exec, args=(code, {})).start()
"""


@pytest.mark.parametrize("code", [SEIZE, IN_A_THREAD], ids=["a process", "a thread"])
async def test_a_tracer_in_another_exec_cannot_keep_an_end_from_its_caller(
    sandbox: AsyncSandbox, code: str
) -> None:
    """A dead process that is traced is shown to its tracer first, who here never looks."""
    await sandbox.files.write("/tmp/seize.py", SEIZE)
    await sandbox.files.write("/tmp/tracer.py", code)
    tracer = await sandbox.start(["python3", "/tmp/tracer.py"])
    async for output in tracer:
        assert output.data == b"up\n"
        break
    begin = time.monotonic()
    ended = await asyncio.wait_for(sandbox.run("sleep 30", timeout=1), 1 + GRACE)
    assert ended.cause is Cause.TIMEOUT
    assert time.monotonic() - begin < 1 + GRACE
    assert (await sandbox.run("echo on", timeout=5)).stdout == "on\n"
