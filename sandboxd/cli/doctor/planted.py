"""Things put outside a sandbox for its inside to look for, removed afterwards.

What is looked for must exist: not finding `/run/docker.sock` proves nothing on a machine
without one.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Planted:
    """What exists outside while the checks run."""

    token: str
    """Hard to guess, and part of everything below."""
    file: Path
    """A file that everyone may read, with the token in it."""
    process: int
    """Number of a process whose command line has the token."""
    port: int
    """Where something listens on 127.0.0.1."""
    socket: str
    """Name of an abstract Unix socket (without the zero byte) that something listens on."""


@contextmanager
def planted() -> Iterator[Planted]:
    """Put everything in place, for as long as the block runs."""
    token = secrets.token_hex(8)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandboxd-doctor-")))
        folder.chmod(0o755)
        file = folder / "secret"
        file.write_text(token)
        file.chmod(0o644)

        process = subprocess.Popen(["sh", "-c", f": {token}; read end"], stdin=subprocess.PIPE)  # noqa: S607
        stack.callback(_end, process)

        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        name = f"sandboxd-doctor-{token}"
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(f"\0{name}")
        unix.listen()

        yield Planted(token, file, process.pid, tcp.getsockname()[1], name)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def environment_marker() -> str:
    """Put a variable into this process's environment, which the agent inherits; its value."""
    return os.environ.setdefault("SANDBOXD_DOCTOR_MARKER", secrets.token_hex(8))
