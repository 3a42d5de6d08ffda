"""Attacks on a grader and its files by what the policy has left in the sandbox.

As root, in the background, with every trick that root of a sandbox has.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import signal
from typing import TYPE_CHECKING

import pytest

from sandboxd import Cause, InternalError, InvalidArgumentError, UnsupportedError
from sandboxd.testing.setup import PidNamespace
from tests.support.attacks import PRELUDE, SYSCALLS, attack
from tests.support.processes import namespaces
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from sandboxd import AsyncSandbox
    from tests.support.agent_probe import AgentProbe

pytestmark = pytest.mark.needs("grader")

WATCH = """
import glob, subprocess, threading
TARGETS = ["/tests/test_a.py", "/tests/deep/test_b.py", "/work/test_c.py", "/work/only_a_grader"]
MARK = sys.argv[1][::-1].encode()     # never whole in a command line or in memory files of ours
found = open("/loot", "ab", buffering=0)
libc.inotify_init1.restype = ctypes.c_int
libc.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]

def report(what):
    found.write(what + b"\\n")

def look(path):
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read(1 << 20)
    except (OSError, ValueError):
        return
    if MARK in data:
        report(b"read " + path.encode())

def names():
    "inotify on everything above and at the targets."
    watch = libc.inotify_init1(os.O_NONBLOCK)
    while True:
        # Again and again, since others of us remove what is watched.
        for path in ["/", "/tests", "/tests/deep", "/work", "/tmp", *TARGETS]:
            libc.inotify_add_watch(watch, path.encode(), 0xfff)
        events = attempt(os.read, watch, 65536)
        if isinstance(events, str):
            time.sleep(0.001)
            continue
        if b"only_a_grader" in events:
            report(b"inotify " + repr(events[:200]).encode())

def read():
    while True:
        for path in TARGETS + ["/tests", "/work"]:
            look(path)
            try:
                report(b"listed") if any("only_a_" in n for n in os.listdir(path)) else None
            except OSError:
                pass

def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b"python3, for all we know"

def memory(pid):
    "What is written in the memory of a process."
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for area in maps:
                first, last = (int(word, 16) for word in area.split()[0].split("-"))
                if " rw" in area and last < 1 << 63:
                    memory.seek(first)
                    if MARK in memory.read(min(last - first, 1 << 20)):
                        report(b"memory " + pid.encode())
    except (OSError, ValueError):
        pass

def processes():
    "Everything that /proc shows of every process, also through its root."
    while True:
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            for name in ("environ", "cmdline", "maps", "mountinfo"):
                look(f"/proc/{entry}/{name}")
            for target in TARGETS:
                look(f"/proc/{entry}/root{target}")
                look(f"/proc/{entry}/cwd/{target}")
            if b"python3" not in command(entry):
                memory(entry)
            try:
                for number in os.listdir(f"/proc/{entry}/fd"):
                    look(f"/proc/{entry}/fd/{number}")
            except OSError:
                pass

def strike():
    "Trace, stop and kill whatever is not ours."
    ours = {os.getpid(), os.getppid(), 1}
    while True:
        for entry in os.listdir("/proc"):
            pid = int(entry) if entry.isdigit() else 1
            if pid in ours or b"python3" in command(pid):
                continue
            call(SYSCALLS["ptrace"], 16, pid, 0, 0)
            for number in (signal.SIGSTOP, signal.SIGKILL):
                attempt(os.kill, pid, number)
        time.sleep(0.001)

def move():
    "Links, mounts and other directories in the place of the targets, again and again."
    while True:
        for step in (
            "mkdir -p /decoy /tests/deep /work; touch /decoy/test_a.py /decoy/test_b.py",
            "mv /tests /tests.old; ln -s /decoy /tests",
            "rm -rf /tests; mv /tests.old /tests; ln -sf /decoy/test_a.py /tests/test_a.py",
            "rm -rf /tests; mkdir -p /tests; ln -s /decoy /tests/deep",
            "mount --bind /decoy /work; mount -t tmpfs none /tests; unshare -m true",
            "rm -rf /tests /work; mkdir -p /tests/deep/test_b.py /work; ln /loot /work/test_c.py",
            "echo 'import os; os._exit(0)' > /tests/conftest.py; cp /tests/conftest.py /work/",
        ):
            subprocess.run(step, shell=True, stderr=subprocess.DEVNULL)

for attack in (names, read, processes, strike, move):
    threading.Thread(target=attack, daemon=True).start()
print("armed", flush=True)
time.sleep(3600)
"""


@pytest.mark.timeout(240)
async def test_z13_processes_left_behind_see_no_byte_and_change_no_result(
    sandbox: AsyncSandbox,
) -> None:
    """Several attackers at once; every run of the grader sees the same files and says the same."""
    mark = secrets.token_hex(16)
    code = PRELUDE + f"SYSCALLS = {SYSCALLS!r}\n" + WATCH
    attackers = [
        await sandbox.start(["python3", "-c", code, mark[::-1]], cwd="/") for _ in range(2)
    ]
    for each in attackers:
        async for output in each:
            assert output.data == b"armed\n"
            break
    targets = [
        "/tests/test_a.py",
        "/tests/deep/test_b.py",
        "/work/test_c.py",
        "/work/only_a_grader",
    ]
    files = {path: f"{path} {mark}\n".encode() * 50 for path in targets}
    await sandbox.files.mkdir("/tests", protected=True)
    for path, data in files.items():
        await sandbox.files.write(path, data, protected=True)
    promised = [f"{hashlib.sha256(data).hexdigest()}  {path}" for path, data in files.items()]
    grade = f"sha256sum {' '.join(targets)}; sleep 0.3; cat {' '.join(targets)} | sha256sum; "
    whole = f"{hashlib.sha256(b''.join(files.values())).hexdigest()}  -"
    for _ in range(8):
        result = await sandbox.run(
            grade + "find /tests -type f | wc -l; exit 5",
            env={"KEY": mark},
            grader=True,
            timeout=30,
        )
        assert (result.exit_code, result.stderr) == (5, "")
        assert result.stdout.splitlines() == [*promised, whole, "2"]
        await asyncio.sleep(0.1)
    assert await sandbox.files.read("/loot") == b""
    # They would have found it: the same file where they may look, and a command like the grader.
    await sandbox.files.write("/work/only_a_grader", mark)
    command = ["python3", "-c", "import time; time.sleep(1)"]
    loot = b""
    for _ in range(20):
        # Some die before anybody has looked at them.
        await sandbox.run(command, env={"KEY": mark}, timeout=20)
        loot = await sandbox.files.read("/loot")
        if b"/environ" in loot:
            break
    assert {line.split()[0] for line in loot.splitlines()} >= {b"read", b"listed", b"inotify"}
    assert b"/environ" in loot
    for each in attackers:
        await each.kill()
    await sandbox.run("rm -f /work/only_a_grader")
    assert (await sandbox.run(_search(mark), timeout=60)).stdout == ""


def _search(mark: str) -> str:
    """Finds files with the mark, and is none itself. `/usr` is large, and nobody wrote there."""
    pattern = f"{mark[:16]}[{mark[16]}]{mark[17:]}"
    return (
        f"grep -rl -D skip -m1 {pattern} / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr"
    )


ESCAPE = """
import fcntl, glob
secret = open("/tests/t.py", "rb").read()
tried = {}
def way(name):
    def run(action):
        tried[name] = attempt(action)
    return run

@way("unix socket in the tree")
def _():
    client = socket.socket(socket.AF_UNIX); client.settimeout(2)
    client.connect("/work/socket"); client.send(secret); return "sent"
@way("abstract unix socket")
def _():
    client = socket.socket(socket.AF_UNIX); client.settimeout(2)
    client.connect("\\0loot"); client.send(secret); return "sent"
@way("loopback")
def _():
    client = socket.create_connection(("127.0.0.1", 4321), 2); client.send(secret); return "sent"
@way("fifo")
def _():
    fifo = os.open("/work/fifo", os.O_WRONLY | os.O_NONBLOCK); os.write(fifo, secret); return "sent"
@way("other processes")
def _():
    seen = {int(pid) for pid in os.listdir("/proc") if pid.isdigit()}
    others = seen - {1, os.getpid(), os.getppid()}
    if others: return sorted(others)
    raise OSError(errno.ESRCH, "")
for folder in ["/work", "/tmp", "/root", "/dev/shm", "/usr", "/etc", ""]:
    path = folder + "/left"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file: file.write(secret)
with open("/work/solution.py", "ab") as file: file.write(secret)
os.setxattr("/work/solution.py", "user.loot", secret)
class Ipc(ctypes.Structure): pass
memory = libc.shmget(77, 4096, 0o1666)
libc.shmat.restype = ctypes.c_void_p
ctypes.memmove(libc.shmat(memory, None, 0), secret, len(secret))
os.link("/tests/t.py", "/tests/u.py")
tell(tried)
"""

LISTEN = """
import threading
os.makedirs("/work", exist_ok=True)
def serve(family, address):
    server = socket.socket(family); server.bind(address); server.listen()
    def take():
        while True:
            with open("/loot", "ab") as loot: loot.write(server.accept()[0].recv(9999))
    threading.Thread(target=take, daemon=True).start()
serve(socket.AF_UNIX, "/work/socket"); serve(socket.AF_UNIX, "\\0loot")
serve(socket.AF_INET, ("127.0.0.1", 4321))
os.mkfifo("/work/fifo")
open("/work/solution.py", "w").close()
fifo = os.open("/work/fifo", os.O_RDWR)
def drain():
    while True:
        with open("/loot", "ab") as loot: loot.write(os.read(fifo, 9999))
threading.Thread(target=drain, daemon=True).start()
memory = libc.shmget(77, 4096, 0o1666)
print("armed", flush=True)
time.sleep(3600)
"""


async def test_z13_code_that_a_grader_runs_leaves_nothing_behind(sandbox: AsyncSandbox) -> None:
    """The policy's code sees the tests when a grader imports it, and can tell nobody later."""
    mark = secrets.token_hex(16)
    listener = await sandbox.start(["python3", "-c", PRELUDE + LISTEN])
    async for _ in listener:
        break
    await sandbox.files.write("/tests/t.py", mark, protected=True)

    tried = await attack(sandbox, ESCAPE, grader=True)

    assert tried == {
        "unix socket in the tree": "ECONNREFUSED",
        "abstract unix socket": "ECONNREFUSED",
        "loopback": "ECONNREFUSED",
        "fifo": "ENXIO",
        "other processes": "ESRCH",
    }
    await asyncio.sleep(0.2)
    await listener.kill()
    look = f"{_search(mark)}; ls /usr/left /etc/left /tests; ls -A /dev/shm; cat /loot"
    seen = await attack(
        sandbox,
        f"""
import subprocess
tell([
    subprocess.run({look!r}, shell=True, capture_output=True, text=True).stdout,
    os.listxattr("/work/solution.py"), os.path.getsize("/work/solution.py"),
])
""",
    )
    assert seen == ["", [], 0]
    # Nor does the next grader find what one wrote.
    again = await sandbox.run("ls -A /tests /work; wc -c < /work/solution.py", grader=True)
    assert again.stdout.split() == [
        "/tests:",
        "t.py",
        "/work:",
        "fifo",
        "socket",
        "solution.py",
        "0",
    ]


async def test_z13_set_id_files_of_the_policy_give_no_rights_in_a_grader(
    sandbox: AsyncSandbox,
) -> None:
    """A grader that runs the policy's code as nobody stays above it."""
    await sandbox.run("mkdir /work; cp /usr/bin/id /work/id; chmod 4755 /work/id")
    inside = await sandbox.run("/work/id -u", user="65534:65534")
    assert inside.stdout == "0\n", "the attack itself works"

    graded = await sandbox.run("stat -c %a /work/id; /work/id -u", user="65534:65534", grader=True)

    assert graded.stdout == "4755\n65534\n"


async def test_z13_a_grader_shares_no_namespace_and_no_id_with_its_sandbox(
    sandbox: AsyncSandbox,
) -> None:
    kinds = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
    look = "for kind in " + " ".join(kinds) + "; do readlink /proc/self/ns/$kind; done; "
    look += "cat /proc/self/uid_map"
    inside = (await sandbox.run(look)).stdout.split("\n")
    graded = (await sandbox.run(look, grader=True)).stdout.split("\n")

    assert len(inside) == len(graded) == len(kinds) + 2
    same = [kind for kind, mine, its in zip(kinds, inside, graded, strict=False) if mine == its]
    assert same == []
    assert inside[len(kinds)] != graded[len(kinds)]


async def test_z13_what_is_left_in_the_sandbox_takes_nothing_from_a_grader(
    sandbox: AsyncSandbox,
) -> None:
    """It has limits of its own: processes and memory that are used up are not its."""
    await sandbox.run("for i in $(seq 300); do sleep 3600 & done", timeout=30)
    await sandbox.run("head -c 900M /dev/zero > /tmp/full; head -c 400M /dev/zero > /tmp/full2")

    result = await sandbox.run(
        "for i in $(seq 50); do sleep 0.1 & done; wait; head -c 50M /dev/zero > /tmp/mine; "
        "stat -c %s /tmp/mine",
        grader=True,
        timeout=30,
    )
    assert (result.cause, result.stdout) == (Cause.EXITED, f"{50 << 20}\n"), result


async def test_z13_a_grader_that_the_machine_kills_is_lost_and_its_sandbox_is_not(
    sandbox: AsyncSandbox, agent: AgentProbe
) -> None:
    ticking = await sandbox.start("while :; do echo x >> /tmp/ticks; sleep 0.01; done")
    process = await sandbox.start("readlink /proc/self/ns/pid; sleep 60", grader=True)
    async for output in process:
        name = output.data.decode().strip()
        break
    init = PidNamespace(name).init()
    assert init is not None
    assert name in namespaces(init)
    os.kill(init, signal.SIGKILL)

    with pytest.raises(InternalError, match=r"the grader in sandbox .* is lost") as raised:
        await process.wait()
    assert raised.value.may_have_run
    before = (await sandbox.run("wc -c < /tmp/ticks")).stdout
    await sandbox.run(f"while [ $(wc -c < /tmp/ticks) -le {before} ]; do :; done", timeout=20)
    assert (await sandbox.run("echo on", grader=True)).stdout == "on\n"
    await ticking.kill()
    assert agent.pid > 0


async def test_z13_closing_a_sandbox_ends_its_grader_too(sandbox: AsyncSandbox) -> None:
    await sandbox.start("while :; do :; done")
    process = await sandbox.start("readlink /proc/self/ns/pid; sleep 60", grader=True)
    async for output in process:
        name = output.data.decode().strip()
        break
    await sandbox.close()

    wait_until(lambda: PidNamespace(name).init() is None)


async def test_z13_graders_come_in_turn_and_know_their_ids(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("/tests/t", "x", protected=True)
    graders = [sandbox.run(f"cat /tests/t; echo {n}", grader=True) for n in range(4)]
    commands = [sandbox.run(f"cat /tests/t 2>&1; echo {n}") for n in range(4)]

    done = await asyncio.gather(*graders, *commands)

    missing = "cat: /tests/t: No such file or directory\n"
    seen = [each.stdout for each in done]
    assert seen == [f"x{n}\n" for n in range(4)] + [f"{missing}{n}\n" for n in range(4)]


async def test_z13_a_terminal_is_refused(sandbox: AsyncSandbox) -> None:
    with pytest.raises((InvalidArgumentError, UnsupportedError), match=r"pty|terminal"):
        await sandbox.start("tty", grader=True, pty=True)
