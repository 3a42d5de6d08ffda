"""Hostile code to run inside a sandbox, and what of it came through."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandboxd import AsyncSandbox

PRELUDE = """
import ctypes, errno, json, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def call(number, *arguments):
    "The result of a system call: its value, or the name of its error."
    words = [
        ctypes.c_char_p(each) if isinstance(each, bytes) else ctypes.c_long(each)
        if isinstance(each, int) else each
        for each in arguments
    ]
    value = libc.syscall(ctypes.c_long(number), *words)
    return value if value >= 0 else errno.errorcode[ctypes.get_errno()]

def attempt(action, *arguments):
    "What an action returned, or the name of the error that stopped it."
    try:
        return action(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))

def tell(value):
    print(json.dumps(value))

"""

_X86_64 = 0
_AARCH64 = 1
_NUMBERS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}

SYSCALLS = {
    name: numbers[_AARCH64 if platform.machine() == "aarch64" else _X86_64]
    for name, numbers in _NUMBERS.items()
}
"""Numbers of system calls on this machine, whose kernel is the sandbox's."""

REFUSED = {"EPERM", "EACCES", "ENOSYS", "EROFS"}
"""Errors that say no, whatever the arguments were."""


async def attack(sandbox: AsyncSandbox, code: str, **options: Any) -> Any:
    """Run Python code in the sandbox and return what it told.

    Args:
        sandbox: Where to run it.
        code: Uses `call`, `attempt`, `tell` and `SYSCALLS` of the prelude; tells once.
        **options: Of `run`.
    """
    numbers = f"SYSCALLS = {SYSCALLS!r}\n"
    options.setdefault("timeout", 30)
    result = await sandbox.run(["python3", "-c", PRELUDE + numbers + code], **options)
    assert result.exit_code == 0, f"the attack itself failed: {result.stderr} {result}"
    return json.loads(result.stdout.splitlines()[-1])
