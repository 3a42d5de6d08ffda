"""An agent that this process started, and that ends with it.

The agent holds the reading end of a pipe, the lifeline, and ends when it sees the pipe close:
so it ends with this process however that ends. A forked child has to close its copy.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from sandboxd.client import _state
from sandboxd.client._agent_base import Agent
from sandboxd.exceptions import AgentMissingError, AgentUnreachableError

if TYPE_CHECKING:
    import subprocess

    from sandboxd.client._settings import Settings

_BACKLOG = 4_096
"""Connections that may wait for the agent's start: one per thread and loop of this process."""

_TAIL = 2_000
"""Bytes of the agent's last words that an error quotes."""

_END_TIMEOUT = 10.0
"""Seconds that the agent has to remove everything when the interpreter exits."""


class EmbeddedAgent(Agent):
    """An agent that this process started, and that ends with it."""

    is_child = True

    def __init__(
        self,
        path: str,
        settings: Settings,
        process: subprocess.Popen[bytes],
        log: int,
        lifeline: int,
    ) -> None:
        """Wrap a process that was started; `start` does that."""
        super().__init__(path, settings)
        self._process = process
        self._log = log
        self._said: str | None = None
        """The last words, once the log is closed: calls of other threads may still quote them."""
        self._lock = threading.Lock()
        """Held while the log is read or closed."""
        self._lifeline = lifeline

    @classmethod
    def start(cls, settings: Settings) -> EmbeddedAgent:
        """Start an agent whose socket takes connections already.

        Raises:
            AgentMissingError: If the program is not there or cannot be executed.
            StateUnusableError: If the state folder cannot be used.
        """
        if not os.access(settings.binary, os.X_OK) or not settings.binary.is_file():
            raise AgentMissingError(
                f"agent {settings.binary} is missing or not executable: build it with `make "
                "build`, install a wheel of sandboxd, or set SANDBOXD_AGENT_BINARY"
            )
        # Not paid for by those who only import the package.
        import socket  # noqa: PLC0415

        sockets = _state.prepare(settings.state)
        path = str(sockets / f"{os.getpid()}-{os.urandom(4).hex()}.sock")
        with contextlib.ExitStack() as undo:
            try:
                _state.sweep(sockets)
                log = _state.nameless_file(settings.state)
                undo.callback(os.close, log)
                listener = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                listener.bind(path)
                undo.callback(os.unlink, path)
                listener.listen(_BACKLOG)
            except OSError as error:
                raise _state.unusable(settings.state, error) from None
            theirs, ours = os.pipe()
            undo.callback(os.close, ours)
            try:
                process = _spawn(settings, listener.fileno(), theirs, log)
            finally:
                os.close(theirs)
            undo.pop_all()
            listener.close()
        return cls(path, settings, process, log, ours)

    def is_dead(self) -> bool:
        """Whether the agent's process ended."""
        return self.owner == os.getpid() and self._process.poll() is not None

    def unreachable(self, error: AgentUnreachableError) -> AgentUnreachableError:
        """Quote the agent's last words."""
        status = self._process.poll()
        how = "runs but does not answer" if status is None else f"ended with status {status}"
        words = self._last_words()
        said = f", its last words: {words}" if words else ", without a word"
        return AgentUnreachableError(
            f"agent {self.settings.binary} {how}{said} ({error})", reason=error.reason
        )

    def _last_words(self) -> str:
        with self._lock:
            return self._read_log() if self._said is None else self._said

    def _read_log(self) -> str:
        size = os.fstat(self._log).st_size
        tail = os.pread(self._log, _TAIL, max(0, size - _TAIL))
        return tail.decode("utf-8", "replace").strip()

    def end(self) -> None:
        """Let the agent remove everything, and wait for it."""
        import subprocess  # noqa: PLC0415  (imported by the start)

        self._close_lifeline()
        try:
            self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._remove()

    def forget(self) -> None:
        """Drop what a forked child has of its parent's agent, which must not notice."""
        self._close_lifeline()
        # It is not this process's child: waiting for it, or warning about it, would be wrong.
        self._process.returncode = 0
        self._said = ""
        os.close(self._log)

    def bury(self) -> None:
        """Drop what is left of an agent that ended by itself."""
        self._close_lifeline()
        self._remove()

    def _remove(self) -> None:
        with self._lock:
            self._said = self._read_log()
            os.close(self._log)
        with contextlib.suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108  (the interpreter may be exiting)

    def _close_lifeline(self) -> None:
        descriptor, self._lifeline = self._lifeline, -1
        if descriptor >= 0:
            os.close(descriptor)


def _spawn(settings: Settings, listener: int, lifeline: int, log: int) -> subprocess.Popen[bytes]:
    import subprocess  # noqa: PLC0415  (not paid for by those who only import the package)

    arguments = ["serve", "--listen-fd", str(listener), "--lifeline-fd", str(lifeline)]
    try:
        # Without `preexec_fn` Python uses vfork, which a trainer with much memory needs.
        return subprocess.Popen(
            [settings.binary, *arguments, "--state", settings.state],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(listener, lifeline),
            cwd="/",
            # Ctrl-C is for the trainer: the agent ends when the trainer does.
            start_new_session=True,
        )
    except OSError as error:
        raise AgentMissingError(
            f"agent {settings.binary} cannot be executed: {error.strerror}: "
            "build it for this machine, or set SANDBOXD_AGENT_BINARY"
        ) from None
