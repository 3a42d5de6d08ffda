"""Attacks on the kernel: what reaches beyond a namespace is refused, by capability or filter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandboxd import AsyncSandbox
from tests.support.attacks import REFUSED, attack

NEWUSER = 0x10000000
NEWNS = 0x00020000

CALLS = {
    "mount": "'mount', b'none', b'/mnt', b'tmpfs', 0, b''",
    "mount-bind": "'mount', b'/', b'/mnt', b'', 4096, b''",
    "remount-the-root-writable": "'mount', b'', b'/', b'', 32, b''",
    "umount": "'umount2', b'/proc', 2",
    "pivot_root": "'pivot_root', b'/', b'/mnt'",
    "new-mount-api": "'fsopen', b'tmpfs', 0",
    "open_tree-clone": "'open_tree', -100, b'/', 1",
    "unshare-mount-namespace": f"'unshare', {NEWNS}",
    "load-a-module": "'init_module', b'x', 1, b''",
    "load-a-module-by-descriptor": "'finit_module', 0, b'', 0",
    "unload-a-module": "'delete_module', b'loop', 0",
    "bpf": "'bpf', 0, bytes(128), 128",
    "keyctl": "'keyctl', 0, -3, 0, 0, 0",
    "add_key": "'add_key', b'user', b'x', b'y', 1, -3",
    "request_key": "'request_key', b'user', b'x', b'', -3",
    "kexec": "'kexec_load', 0, 0, 0, 0",
    "kexec-by-file": "'kexec_file_load', 0, 0, 0, b'', 0",
    "reboot": "'reboot', 0xfee1dead, 672274793, 0x89ABCDEF, 0",
    "swapon": "'swapon', b'/tmp/x', 0",
    "swapoff": "'swapoff', b'/tmp/x'",
    "accounting": "'acct', 0",
    "set-the-clock": "'clock_settime', 0, bytes(16)",
    "open-a-file-by-handle": "'open_by_handle_at', -100, bytes([8,0,0,0,1]+[0]*11), 0",
    "watch-the-processor": "'perf_event_open', bytes([1,0,0,0,112]+[0]*107), 0, -1, -1, 0",
    "userfaultfd": "'userfaultfd', 0",
    "kernel-log": "'syslog', 3, bytes(4096), 4096",
    "quota": "'quotactl', 0, b'', 0, 0",
    "io_uring": "'io_uring_setup', 1, bytes(120)",
}


@pytest.mark.parametrize("what", CALLS)
async def test_a_system_call_beyond_the_sandbox_is_refused(
    sandbox: AsyncSandbox, what: str
) -> None:
    name, _, arguments = CALLS[what].partition(", ")

    seen = await attack(sandbox, f"tell(call(SYSCALLS[{name}], {arguments}))")

    assert seen in REFUSED, f"{what} returned {seen}"


async def test_making_a_user_namespace_to_gain_capabilities_is_refused(
    sandbox: AsyncSandbox,
) -> None:
    """A new namespace would bring every capability back, over its own mounts and network."""
    seen = await attack(
        sandbox,
        f"""
# Whether by fork in a new namespace or by leaving the own one.
made = call(SYSCALLS["unshare"], {NEWUSER})
tell(made)
""",
    )
    assert seen in {*REFUSED, "ENOSPC", "EUSERS"}
    clone = await sandbox.run("unshare --user --map-root-user true")
    assert clone.exit_code != 0


@pytest.mark.needs("user.range")
async def test_an_ordinary_user_inside_makes_no_user_namespace_either(
    sandbox: AsyncSandbox,
) -> None:
    seen = await attack(sandbox, f'tell(call(SYSCALLS["unshare"], {NEWUSER}))', user="nobody")
    assert seen in {*REFUSED, "ENOSPC", "EUSERS"}


async def test_the_seccomp_filter_is_on_for_every_exec(sandbox: AsyncSandbox) -> None:
    command = "grep ^Seccomp: /proc/self/status; grep ^Seccomp_filters: /proc/self/status"
    process = await (await sandbox.start(command)).wait()

    for shown in ((await sandbox.run(command)).stdout, process.stdout):
        assert shown.split()[:2] == ["Seccomp:", "2"]


async def test_the_filter_cannot_be_passed_by_another_call_table(sandbox: AsyncSandbox) -> None:
    """The 32-bit table and x32 number their calls otherwise than the filter expects."""
    if os.uname().machine != "x86_64":
        pytest.skip("only x86_64 has further call tables")
    seen = await attack(
        sandbox,
        """
pid = os.fork()
if pid == 0:
    # x32: mount is 165 with bit 30.
    value = call(0x40000000 | 165, b"none", b"/mnt", b"tmpfs", 0, b"")
    os._exit(0 if value in ("EPERM", "ENOSYS", "EACCES") else 1)
tell(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
    )
    assert seen == 0 or seen < 0, "a call through x32 was not refused"


async def test_no_capability_reaches_beyond_the_own_namespace(sandbox: AsyncSandbox) -> None:
    """The usual set of a container, in a user namespace that is not the machine's."""
    seen = await attack(
        sandbox,
        """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
tell({name: status[name].strip() for name in ("CapEff", "CapBnd")})
""",
    )
    # Everything that containers have by default, and not one more: no SYS_ADMIN, SYS_PTRACE,
    # SYS_MODULE, NET_ADMIN, SYS_TIME, SYS_RAWIO, BPF, PERFMON, SYSLOG, MAC_ADMIN.
    usual = 0x00000000A80425FB
    assert int(seen["CapBnd"], 16) & ~usual == 0, seen
    assert int(seen["CapEff"], 16) & ~usual == 0, seen
    namespace = (await sandbox.run(["readlink", "/proc/self/ns/user"])).stdout.strip()
    assert namespace != str(Path("/proc/self/ns/user").readlink())


async def test_a_hardened_template_has_no_capabilities_and_gains_none() -> None:
    async with AsyncSandbox("host-hardened") as sandbox:
        shown = (await sandbox.run("grep -E '^(Cap|NoNewPrivs)' /proc/self/status")).stdout
        status = dict(line.split(":\t") for line in shown.splitlines())
        assert {int(value, 16) for name, value in status.items() if name.startswith("Cap")} == {0}
        assert status["NoNewPrivs"] == "1"
        # It still works as a sandbox.
        assert (await sandbox.run("echo x > /tmp/f && cat /tmp/f")).stdout == "x\n"
        refused = await sandbox.run("chown 1:1 /tmp/f")
        assert refused.exit_code != 0


async def test_writing_kernel_settings_is_refused(sandbox: AsyncSandbox) -> None:
    """Not one file under /proc/sys or /sys that would reach the machine opens for writing."""
    seen = await attack(
        sandbox,
        """
opened = []
for top in ("/proc/sys", "/sys"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                opened.append(path)
            except OSError:
                pass
for path in ("/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/bus/pci/devices",
             "/proc/acpi/wakeup", "/proc/fs/nfsd/threads", "/proc/mtrr", "/proc/kcore"):
    try:
        os.close(os.open(path, os.O_WRONLY))
        opened.append(path)
    except OSError:
        pass
tell(opened)
""",
    )
    assert seen == [path for path in seen if path.startswith("/sys/devices/system/cpu/")], seen
    # The static files of /sys are the sandbox's own copy; the machine's are untouched.
    online = Path("/sys/devices/system/cpu/online").read_text()
    await sandbox.run("echo 0-999 > /sys/devices/system/cpu/online")
    assert Path("/sys/devices/system/cpu/online").read_text() == online


@pytest.mark.parametrize(
    "path",
    [
        "/proc/kcore",
        "/proc/keys",
        "/proc/kmsg",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/sys/firmware/acpi",
        "/sys/kernel/security",
        "/sys/class/net/eth0",
        "/sys/fs/cgroup/memory",
        "/sys/block",
        "/sys/kernel/debug",
    ],
)
async def test_what_the_kernel_tells_about_the_machine_is_masked(
    sandbox: AsyncSandbox, path: str
) -> None:
    shown = await sandbox.run(f"if [ -d {path} ]; then ls {path}; else head -c 64 {path}; fi")

    assert shown.stdout == "", f"{path} can be read"
