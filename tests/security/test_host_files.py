"""Attacks on the files of the machine, from a program inside."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandboxd import AsyncSandbox
from sandboxd.testing.setup import PidNamespace
from tests.support.attacks import REFUSED, attack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandboxd.testing import LocalSetup

PRIVATE = ["/home", "/root", "/var/tmp", "/run", "/tmp", "/opt", "/srv", "/mnt", "/dev/shm"]


@pytest.fixture
def planted() -> Iterator[str]:
    """A file of one name in every private place that this user can write to."""
    name = f"planted-{secrets.token_hex(8)}"
    paths = [Path(folder, name) for folder in PRIVATE if os.access(folder, os.W_OK)]
    assert paths
    for path in paths:
        path.write_text("secret")
        path.chmod(0o644)
    yield name
    for path in paths:
        path.unlink()


async def test_private_folders_of_the_machine_are_not_there(
    sandbox: AsyncSandbox, planted: str
) -> None:
    shown = await sandbox.run(
        f"find / -xdev -name '{planted}'; find / -name '{planted}' 2>/dev/null"
    )

    assert shown.stdout == ""
    for place in ("/home", "/root", "/run", "/srv", "/mnt", "/opt"):
        assert (await sandbox.run(["ls", "-A", place])).stdout.strip() in {"", "lock"}, place


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/ssh",
        "/etc/machine-id",
        "/etc/docker",
        "/etc/kubernetes",
        "/etc/ssl/private",
        "/etc/crontab",
        "/etc/apt/auth.conf",
        "/var/lib/dpkg/status",
        "/var/log/syslog",
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/root/.ssh",
        "/boot",
        "/lost+found",
        "/work",
    ],
)
async def test_secrets_and_state_of_the_machine_are_not_there(
    sandbox: AsyncSandbox, path: str
) -> None:
    shown = await sandbox.run(f"ls -A {path} 2>/dev/null && cat {path} 2>/dev/null")

    assert shown.stdout.strip() in {"", path} or (path == "/boot" and not shown.stdout.strip())
    assert (await sandbox.run(["test", "-s", path])).exit_code == 1 or (
        await sandbox.run(["ls", "-A", path])
    ).stdout == ""


async def test_the_machines_name_and_id_are_not_told(sandbox: AsyncSandbox) -> None:
    """A rollout must not learn which machine it runs on."""
    told = await sandbox.run("hostname; cat /etc/hostname /etc/hosts /etc/machine-id 2>/dev/null")

    assert os.uname().nodename not in told.stdout.split()


async def test_the_environment_of_the_agent_is_not_told(sandbox: AsyncSandbox) -> None:
    found = await sandbox.run("cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; env")

    assert "SANDBOXD" not in found.stdout
    assert "PYTEST" not in found.stdout


async def test_changing_the_system_inside_does_not_change_the_machine(
    sandbox: AsyncSandbox,
) -> None:
    paths = [Path(each) for each in ("/usr/bin/env", "/etc/passwd", "/bin/sh", "/etc/hosts")]
    before = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}

    done = await sandbox.run(
        "for each in /usr/bin/env /etc/passwd /bin/sh /etc/hosts; do echo evil > $each; done;"
        "rm -rf /usr/bin/id; chmod 4777 /usr/bin/cat; chown 7 /usr/bin/head; true"
    )

    assert done.exit_code == 0
    assert {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths} == before
    assert Path("/usr/bin/id").exists()
    assert Path("/usr/bin/cat").stat().st_mode & 0o7777 != 0o4777
    assert Path("/usr/bin/head").stat().st_uid != 7


async def test_climbing_out_by_dots_ends_at_the_sandboxs_root(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("/own-root", "x")

    shown = await sandbox.run("cd /; ls ../../../../../..; cd /tmp; ls ../../..")

    assert shown.stdout.split().count("own-root") == 2


async def test_the_classic_escape_from_a_chroot_ends_at_the_sandboxs_root(
    sandbox: AsyncSandbox,
) -> None:
    """Root inside may chroot; the root below is still the sandbox's, not the machine's."""
    await sandbox.files.write("/own-root", "x")

    seen = await attack(
        sandbox,
        """
os.makedirs("/tmp/jail", exist_ok=True)
outside = os.open("/", os.O_RDONLY)
first = attempt(os.chroot, "/tmp/jail")
os.fchdir(outside)
for _ in range(64):
    os.chdir("..")
second = attempt(os.chroot, ".")
tell([first, second, os.path.exists("/own-root")])
""",
    )
    assert seen[2] is True


async def test_no_file_system_of_the_machine_is_mounted_writable(sandbox: AsyncSandbox) -> None:
    """Whatever comes from outside is read-only; what can be written is memory of the sandbox."""
    mounts = (await sandbox.run(["cat", "/proc/self/mountinfo"])).stdout
    own = {"overlay", "tmpfs", "proc", "devpts", "mqueue"}
    writable = []
    for line in mounts.splitlines():
        words = line.split()
        kind = words[words.index("-") + 1]
        target, options = words[4], words[5].split(",")
        if kind not in own and "ro" not in options:
            writable.append((target, kind))
    assert not writable


@pytest.mark.parametrize("device", ["null", "zero", "full", "random", "urandom", "tty"])
async def test_touching_a_device_does_not_change_the_machines_node(
    sandbox: AsyncSandbox, device: str
) -> None:
    before = Path(f"/dev/{device}").stat()
    result = await sandbox.run(f"touch /dev/{device} /proc/keys; echo x >/dev/null && echo written")
    assert "Read-only file system" in result.stderr
    assert result.stdout == "written\n"
    after = Path(f"/dev/{device}").stat()
    assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)


async def test_raw_devices_are_not_there_and_cannot_be_made(sandbox: AsyncSandbox) -> None:
    listed = set((await sandbox.run(["ls", "/dev"])).stdout.split())
    assert listed <= {
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
        "urandom", "zero", "mqueue",
    }  # fmt: skip

    seen = await attack(
        sandbox,
        """
import stat
found = {}
for name, kind, major, minor in (
    ("disk", stat.S_IFBLK, 8, 0), ("vda", stat.S_IFBLK, 254, 0), ("mem", stat.S_IFCHR, 1, 1),
    ("kmsg", stat.S_IFCHR, 1, 11), ("loop", stat.S_IFBLK, 7, 0), ("fuse", stat.S_IFCHR, 10, 229),
):
    for folder in ("/tmp", "/dev", "/dev/shm", "/usr"):
        path = f"{folder}/{name}"
        made = attempt(os.mknod, path, kind | 0o666, os.makedev(major, minor))
        found[path] = made if made else attempt(os.open, path, os.O_RDONLY)
tell(found)
""",
    )
    assert set(seen.values()) <= {*REFUSED, "ENXIO"}, seen


@pytest.mark.needs("root")
async def test_a_set_user_id_program_in_a_layer_gives_nothing_outside(
    sandbox: AsyncSandbox, setup: LocalSetup
) -> None:
    """Its owner is root of the sandbox, who owns nothing of the machine."""
    outside = await setup.outside(sandbox)
    assert isinstance(outside, PidNamespace)
    await sandbox.run("cp /usr/bin/id /tmp/id; chown 0:0 /tmp/id; chmod 6755 /tmp/id")

    seen = Path(f"/proc/{outside.init()}/root/tmp/id").stat()

    assert seen.st_uid != 0
    assert seen.st_gid != 0


@pytest.mark.needs("user.range")
async def test_a_set_user_id_program_makes_root_of_the_sandbox_at_most(
    sandbox: AsyncSandbox,
) -> None:
    """Tools like su work inside; what they give is the sandbox's root, refused outside."""
    await sandbox.run("cp /usr/bin/cat /tmp/cat; chmod 4755 /tmp/cat")
    shown = await sandbox.run("/tmp/cat /proc/self/status | grep ^Uid", user="nobody")

    effective = shown.stdout.split()[2] if shown.stdout else "65534"
    assert effective in {"0", "65534"}
    kernel = await sandbox.run("/tmp/cat /proc/1/environ", user="nobody")
    assert kernel.stdout == ""


async def test_a_neighbours_files_are_not_there() -> None:
    async with AsyncSandbox() as victim, AsyncSandbox() as attacker:
        name = f"mine-{secrets.token_hex(8)}"
        for folder in ("/tmp", "/dev/shm", "/root", "/srv", "/var/tmp"):
            await victim.files.write(f"{folder}/{name}", "secret")

        found = await attacker.run(f"find / -name '{name}' 2>/dev/null")

        assert found.stdout == ""


async def test_the_agents_state_folder_and_socket_are_not_there(sandbox: AsyncSandbox) -> None:
    state = os.environ["SANDBOXD_STATE"]

    found = await sandbox.run(f"ls -d {state}; find / -name '*.sock' 2>/dev/null")

    assert found.stdout == ""


async def test_filling_every_place_does_not_touch_the_machines_disk(
    sandbox: AsyncSandbox,
) -> None:
    """M8: the room is the sandbox's own, whichever folder is filled, and through the API too."""
    places = ["/", "/tmp", "/var/tmp", "/dev/shm"]
    before = {place: os.statvfs(place) for place in places if Path(place).is_dir()}

    result = await sandbox.run(
        "for each in /tmp /dev/shm /root /usr/bin /var/tmp; do"
        " fallocate -l 90G $each/big || head -c 300M /dev/zero > $each/big2; done"
    )
    with contextlib.suppress(Exception):
        await sandbox.files.write("/tmp/more", bytes(64 << 20))

    assert "No space left on device" in result.stderr
    for place, then in before.items():
        now = os.statvfs(place)
        moved = (then.f_bavail - now.f_bavail) * now.f_frsize
        assert moved < 256 << 20, f"{place} lost {moved >> 20} MiB"
