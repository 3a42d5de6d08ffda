"""Attacks on processes: those of the machine, the sandbox's own init, its neighbours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox
from sandboxd.testing.setup import PidNamespace
from tests.support.attacks import REFUSED, attack
from tests.support.processes import all_processes, look

if TYPE_CHECKING:
    from sandboxd.testing import LocalSetup
    from tests.support.agent_probe import AgentProbe


async def test_signalling_a_process_of_the_machine_finds_nobody(
    sandbox: AsyncSandbox, agent: AgentProbe
) -> None:
    with subprocess.Popen(["sleep", "60"]) as target:
        try:
            pids = [target.pid, os.getpid(), agent.pid, agent.launcher.pid]
            seen = await attack(
                sandbox, f"tell([attempt(os.kill, pid, signal.SIGKILL) for pid in {pids}])"
            )
            assert seen == ["ESRCH"] * len(pids)
            await sandbox.run("kill -9 -1")
            assert target.poll() is None
            assert look(agent.pid) is not None
        finally:
            target.kill()


async def test_the_process_list_shows_the_sandboxs_own_alone(sandbox: AsyncSandbox) -> None:
    seen = await attack(
        sandbox,
        """
pids = [each for each in os.listdir("/proc") if each.isdigit()]
tell({pid: open(f"/proc/{pid}/comm").read().strip() for pid in pids if int(pid) != os.getpid()})
""",
    )

    assert "1" in seen
    # Where no cgroup can be written, init keeps a child that watches the exec.
    assert set(seen.values()) == {seen["1"]}
    assert len(seen) <= 2


async def test_killing_init_from_inside_does_nothing(sandbox: AsyncSandbox) -> None:
    await sandbox.run("kill -9 1; kill -TERM 1; kill -SEGV 1")

    assert (await sandbox.run("echo on")).stdout == "on\n"


INIT_FILES = ["mem", "environ", "fd", "root", "cwd", "exe", "maps", "map_files", "ns/pid"]


@pytest.mark.parametrize("name", INIT_FILES)
async def test_looking_into_init_through_proc_is_refused(sandbox: AsyncSandbox, name: str) -> None:
    """Init holds the agent's socket and more capabilities than anything it starts."""
    read = """
def read(path):
    if os.path.isdir(path) and not os.path.islink(path):
        return len(os.listdir(path))
    if os.path.islink(path) or "/ns/" in path or path.endswith(("root", "cwd", "exe")):
        return os.readlink(path)
    with open(path, "rb", buffering=0) as file:
        return len(file.read(1))
"""
    seen = await attack(sandbox, f"{read}\ntell(attempt(read, '/proc/1/{name}'))")

    assert seen in REFUSED, f"/proc/1/{name}: {seen}"


async def test_writing_the_memory_of_init_is_refused(sandbox: AsyncSandbox) -> None:
    seen = await attack(sandbox, "tell(attempt(os.open, '/proc/1/mem', os.O_RDWR))")

    assert seen in REFUSED


async def test_tracing_init_or_taking_its_descriptors_is_refused(sandbox: AsyncSandbox) -> None:
    seen = await attack(
        sandbox,
        """
attach = call(SYSCALLS["ptrace"], 16, 1, 0, 0)
seize = call(SYSCALLS["ptrace"], 0x4206, 1, 0, 0)
buffer = ctypes.create_string_buffer(16)
local = struct.pack("QQ", ctypes.addressof(buffer), 16)
remote = struct.pack("QQ", 0x400000, 16)
read = call(SYSCALLS["process_vm_readv"], 1, local, 1, remote, 1, 0)
pidfd = call(SYSCALLS["pidfd_open"], 1, 0)
taken = []
if isinstance(pidfd, int):
    taken = [call(SYSCALLS["pidfd_getfd"], pidfd, n, 0) for n in range(8)]
tell([attach, seize, read, *taken])
""",
    )
    assert set(seen) <= REFUSED, seen


async def test_a_program_inherits_nothing_but_its_three_streams(sandbox: AsyncSandbox) -> None:
    """A descriptor of the agent or of another exec would be a way out."""
    seen = await attack(
        sandbox,
        """
tell({name: attempt(os.readlink, f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")})
""",
    )
    # The listing itself is one, gone when it is looked at.
    assert sorted(name for name, target in seen.items() if target != "ENOENT") == ["0", "1", "2"]
    process = await sandbox.start("ls /proc/self/fd", stdin=True)
    await process.close_stdin()
    assert (await process.wait()).stdout.split() == ["0", "1", "2", "3"]


async def test_a_neighbours_processes_cannot_be_seen_or_signalled(setup: LocalSetup) -> None:
    async with AsyncSandbox() as attacker, AsyncSandbox() as victim:
        outside = await setup.outside(victim)
        await victim.start(["sleep", "77"])
        seen = await attack(
            attacker,
            """
found = []
for pid in range(1, 32768):
    if pid not in (1, os.getpid(), os.getppid()) and attempt(os.kill, pid, 0) is None:
        found.append(pid)
tell(found)
""",
        )
        await attacker.run("kill -9 -1")

        assert seen == []
        assert outside.left() == ["sleep 77"]


@pytest.mark.needs("root")
async def test_root_inside_is_nobody_outside(sandbox: AsyncSandbox, setup: LocalSetup) -> None:
    outside = await setup.outside(sandbox)
    assert isinstance(outside, PidNamespace)
    await sandbox.start(["sleep", "88"])
    pid = next(each.pid for each in all_processes().values() if each.command == "sleep 88")
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )

    ids = {int(each) for name in ("Uid", "Gid") for each in status[name].split()}
    assert min(ids) >= 1000, "an id of the machine's own"
    assert max(ids) < 2**32 - 1


async def test_leaving_by_another_namespaces_descriptor_is_refused(sandbox: AsyncSandbox) -> None:
    """Joining a namespace needs a capability over it; init's are not even visible."""
    seen = await attack(
        sandbox,
        """
found = []
for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
    own = attempt(os.open, f"/proc/self/ns/{name}", os.O_RDONLY)
    found.append(call(SYSCALLS["setns"], own, 0) if isinstance(own, int) else own)
tell(found)
""",
    )
    assert set(seen) <= {*REFUSED, "EINVAL"}, seen


async def test_a_hostname_set_inside_stays_inside(sandbox: AsyncSandbox) -> None:
    before = os.uname().nodename

    await sandbox.run("hostname evil || echo evil > /proc/sys/kernel/hostname")

    assert os.uname().nodename == before
    async with AsyncSandbox() as other:
        assert (await other.run("hostname")).stdout != "evil\n"


async def test_shared_memory_and_queues_of_the_machine_are_others(sandbox: AsyncSandbox) -> None:
    """System V objects are found by number, whoever made them."""
    made = subprocess.run(["ipcmk", "-M", "4096"], check=True, capture_output=True, text=True)
    number = made.stdout.split()[-1]
    try:
        shown = await sandbox.run("ipcs -m | grep -c 0x")
        assert shown.stdout.strip() == "0"
    finally:
        subprocess.run(["ipcrm", "-m", number], check=True)
