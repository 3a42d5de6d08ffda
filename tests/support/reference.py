"""Right values from the machine's own tools, independent of anything under test."""

from __future__ import annotations

import hashlib
import subprocess


def output(argv: list[str], stdin: bytes = b"") -> bytes:
    """What a program of this machine prints."""
    return subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, check=True).stdout


def sha256sum(data: bytes) -> str:
    """The hash as coreutils computes it."""
    return output(["sha256sum"], data)[:64].decode("ascii")


def seq_hash(first: int, last: int) -> str:
    """The hash of what `seq FIRST LAST` prints on this machine."""
    return hashlib.sha256(output(["seq", str(first), str(last)])).hexdigest()


def wait_status(argv: list[str]) -> int:
    """How a plain child ends, as `subprocess` reports it: exit code, or minus the signal."""
    return subprocess.run(argv, capture_output=True, check=False).returncode
