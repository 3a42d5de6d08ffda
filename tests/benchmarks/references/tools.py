"""Command lines of the small tools: one process with namespaces of its own per command."""

from __future__ import annotations

from tests.benchmarks.missing import program


def bwrap(command: list[str]) -> list[str]:
    """`command` in a new bubblewrap sandbox on the machine's /usr.

    Raises:
        MissingReferenceError: bubblewrap is not installed.
    """
    links = [part for name in ("bin", "sbin", "lib", "lib64") for part in _link(name)]
    return [
        program("bwrap", "bubblewrap"),
        "--unshare-all",
        *("--ro-bind", "/usr", "/usr"),
        *links,
        *("--proc", "/proc"),
        *("--dev", "/dev"),
        *("--tmpfs", "/tmp"),
        "--",
        *command,
    ]


def _link(name: str) -> tuple[str, str, str]:
    return ("--symlink", f"usr/{name}", f"/{name}")


def nsenter(pid: int, command: list[str]) -> list[str]:
    """`command` in every namespace of process `pid`.

    Raises:
        MissingReferenceError: nsenter is not installed.
    """
    return [program("nsenter", "util-linux"), f"--target={pid}", "--all", "--", *command]
