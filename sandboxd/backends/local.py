"""One agent on this machine, found at its socket or started there.

It is nobody's child on purpose: the control plane may end, be killed or be started again while
sandboxes run. Whoever starts first starts it, under a lock; everyone else finds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

from sandboxd.client import _settings, _state
from sandboxd.exceptions import AgentMissingError, AgentUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_START = 30.0
"""Seconds that an agent has until its socket takes connections."""

_END = 30.0
"""Seconds that an agent has to remove everything, before it is killed."""

_LOOK = 0.02
"""Seconds between looks while an agent starts or ends."""

_TAIL = 2_000
"""Bytes of the agent's last words that an error quotes."""

_SOCKET = "serve.sock"


class LocalBackend:
    """See `Backend`."""

    def __init__(self, state: Path | None = None, binary: Path | None = None) -> None:
        """Describe the agent; nothing is started.

        Args:
            state: Folder of this user alone. `None`: as for the SDK, `SANDBOXD_STATE`.
            binary: The agent's program. `None`: as for the SDK, `SANDBOXD_AGENT_BINARY`.
        """
        settings = _settings.read()
        self._state = state or settings.state
        self._binary = binary or settings.binary

    async def agents(self) -> list[str]:
        """See `Backend`."""
        path = _state.prepare(self._state) / _SOCKET
        # Others hold the lock for as long as an agent takes to start: not on the event loop.
        await asyncio.to_thread(self._ensure, path)
        return [str(path)]

    async def end(self, address: str) -> None:
        """See `Backend`."""
        await asyncio.to_thread(_end, address)

    def _ensure(self, path: Path) -> None:
        with _lock(self._state / "serve.lock"):
            if _peer(str(path)) is None:
                path.unlink(missing_ok=True)
                self._start(path)

    def _start(self, path: Path) -> None:
        if not os.access(self._binary, os.X_OK) or not self._binary.is_file():
            raise AgentMissingError(
                f"agent {self._binary} is missing or not executable: build it with `make build`, "
                "install a wheel of sandboxd, or set SANDBOXD_AGENT_BINARY"
            )
        log = self._state / "serve-agent.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [self._binary, "serve", "--listen", path, "--state", self._state],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                # Neither Ctrl-C nor the end of a terminal is for it.
                start_new_session=True,
            )
        try:
            _wait_until(lambda: _peer(str(path)) is not None or process.poll() is not None, _START)
        except TimeoutError:
            process.kill()
            process.wait()
        if process.returncode is not None:
            words = log.read_bytes()[-_TAIL:].decode("utf-8", "replace").strip()
            raise AgentUnreachableError(
                f"agent {self._binary} ended with status {process.returncode}, its last words: "
                f"{words or 'none'}"
            )
        # It is on its own from here; the interpreter must not warn that it still runs.
        process.returncode = 0


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _peer(path: str) -> int | None:
    """Return the process that listens at a socket, if any does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            return None
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], "little")


def _end(path: str) -> None:
    pid = _peer(path)
    if pid is None:
        return
    try:
        # By a descriptor: the number may be another process's by the time a signal is sent.
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _peer(path) != pid:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, how)
            with contextlib.suppress(TimeoutError):
                _wait_until(lambda: _is_over(process), _END)
                return
    finally:
        os.close(process)
        # If it is our child after all.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _is_over(process: int) -> bool:
    return bool(select.select([process], [], [], 0)[0])


def _wait_until(check: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(_LOOK)
