"""Programs that try to get out, run inside a sandbox.

Each is a Python program that prints one line per thing it tried: `held` or `crossed`, what, and
what came of it, with tabs between. Even where a boundary is missing they do no harm: a device is
opened but not written, a call that would change the machine gets arguments that the kernel refuses.
"""

from __future__ import annotations

_REPORT = """
import sys
def held(what, saw=""): print("held", what, saw, sep="\\t")
def crossed(what, saw=""): print("crossed", what, saw, sep="\\t")
def attempt(what, act):
    try:
        saw = act()
    except OSError as error:
        held(what, error.strerror or error)
    else:
        crossed(what, saw)
"""

FILES = (
    _REPORT
    + """
import os
secret = sys.argv[1]
ways = {
    "a planted file": secret,
    "the same by init's root": "/proc/1/root" + secret,
    "the same by climbing": "/proc/self/cwd/" + "../" * 32 + secret,
}
for way, path in ways.items():
    attempt(way, lambda: open(path).read(16))
for path in sys.argv[2:]:
    attempt(path, lambda: (os.stat(path), "it is there")[1])
"""
)
"""Arguments: the planted file; then paths that exist outside and must not exist inside."""

ENVIRONMENT = (
    _REPORT
    + """
import glob
marker = sys.argv[1].encode()[::-1]
seen = 0
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        environment = open(path, "rb").read()
    except OSError:
        continue
    seen += 1
    if marker in environment:
        crossed(f"{path} has the machine's environment")
held(f"looked into {seen} environments")
"""
)
"""Argument: the marker, reversed."""

PROCESSES = (
    _REPORT
    + """
import glob, os
token, number = sys.argv[1].encode()[::-1], int(sys.argv[2])
processes = glob.glob("/proc/[0-9]*/cmdline")
for path in processes:
    try:
        if token in open(path, "rb").read():
            crossed(f"{path} is a process of the machine")
    except OSError:
        pass
held(f"{len(processes)} processes are visible")
attempt(f"signal 0 to process {number}", lambda: os.kill(number, 0))
"""
)
"""Arguments: the token, reversed; the number of the planted process outside."""

NETWORK = (
    _REPORT
    + """
import socket
def tcp():
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2)
    return "connected"
def unix():
    socket.socket(socket.AF_UNIX).connect("\\0" + sys.argv[2])
    return "connected"
def route(address):
    # Connecting a datagram socket looks up a route and sends nothing.
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect((address, 9))
    return "there is a route"
attempt("the machine's 127.0.0.1", tcp)
attempt("the machine's abstract sockets", unix)
for address in ("192.0.2.1", "169.254.169.254"):
    attempt(address, lambda: route(address))
names = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
(held if set(names) <= {"lo"} else crossed)(f"interfaces: {' '.join(names) or 'none'}")
"""
)
"""Arguments: a port of the machine; the name of an abstract socket of the machine."""

IDENTITY = (
    _REPORT
    + """
inner, outer, count = open("/proc/self/uid_map").read().split()[:3]
say = crossed if outer == "0" else held
say(f"user {inner} inside is user {outer} outside, {count} ids")
"""
)

DEVICES = (
    _REPORT
    + """
import os, stat
for name in ("mem", "kmem", "port", "kmsg", "kvm", "fuse", "sda", "vda", "nvme0n1"):
    attempt(f"/dev/{name}", lambda: (os.close(os.open(f"/dev/{name}", os.O_RDONLY)), "open")[1])
for kind, name in ((stat.S_IFBLK, "block"), (stat.S_IFCHR, "character")):
    attempt(f"a new {name} device", lambda: os.mknod("/tmp/doctor", kind | 0o600, os.makedev(1, 1)))
"""
)

KERNEL = (
    _REPORT
    + """
import os
def opened(path, flags):
    os.close(os.open(path, flags))
    return "open"
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches"):
    # Opened only: nothing is written, should that be possible.
    attempt(f"write {path}", lambda: opened(path, os.O_WRONLY))
for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list"):
    try:
        content = open(path, "rb").read(64)
    except OSError as error:
        held(f"read {path}", error.strerror)
    else:
        (crossed if content else held)(f"read {path}", f"{len(content)} bytes")
"""
)

SYSTEM_CALLS = (
    _REPORT
    + """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
# Numbers on x86_64 and aarch64. The arguments are refused by a kernel that allows the call.
calls = {
    "unshare a user namespace": (272, 97, 0x10000000),
    "mount": (165, 40, 0, 0, 0, 0, 0),
    "pivot_root": (155, 41, 0, 0),
    "bpf": (321, 280, -1, 0, 0),
    "perf_event_open": (298, 241, 0, 0, -1, -1, 0),
    "init_module": (175, 105, 0, 0, 0),
    "kexec_load": (246, 104, 0, 0, 0, 0),
    "reboot": (169, 142, 0, 0, 0, 0),
    "swapon": (167, 224, 0, 0),
    "settimeofday": (164, 170, 0, -1),
    "keyctl": (250, 219, -1, 0, 0, 0, 0),
    "open_by_handle_at": (304, 265, -1, 0, 0),
    "ptrace of init": (101, 117, 16, 1, 0, 0),
    "userfaultfd": (323, 282, 0),
}
column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
for name, call in calls.items():
    ctypes.set_errno(0)
    result = libc.syscall(*map(ctypes.c_long, (call[column], *call[2:])))
    code = ctypes.get_errno() if result == -1 else 0
    refused = code in (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOSPC)
    (held if refused else crossed)(name, errno.errorcode.get(code, "allowed"))
"""
)
