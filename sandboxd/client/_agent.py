"""The agent of this process: found or started when it is first needed.

Invariants: a process has at most one living agent, and starts the next only when that one is dead.
An agent belongs to the process that started it: it ends with that process, however that ends,
because it holds the other end of a pipe (the lifeline) and sees it close. A forked child closes
its copy of that pipe and starts an agent of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING

from sandboxd.client import _settings, _state
from sandboxd.exceptions import (
    AgentMissingError,
    AgentUnreachableError,
    SocketUntrustedError,
    UsedAfterForkError,
)

if TYPE_CHECKING:
    import subprocess
    from asyncio import AbstractEventLoop

    from sandboxd.client._loop import LoopConnection
    from sandboxd.client._settings import Settings

_BACKLOG = 4_096
"""Connections that may wait for the agent's start: one per thread and loop of this process."""

_TAIL = 2_000
"""Bytes of the agent's last words that an error quotes."""

_END_TIMEOUT = 10.0
"""Seconds that the agent has to remove everything when the interpreter exits."""


class Agent:
    """An agent that this process talks to."""

    def __init__(self, path: str, settings: Settings) -> None:
        """Name an agent by its socket; nothing is sent."""
        self.path = path
        self.settings = settings
        self.owner = os.getpid()
        self.has_answered = False
        """Whether it is up, so that the next connection need not wait for its start."""
        self.threads = threading.local()
        """Blocking connections, one per thread."""
        self.loops: weakref.WeakKeyDictionary[AbstractEventLoop, LoopConnection] = (
            weakref.WeakKeyDictionary()
        )
        """Connections of event loops, one per loop."""

    def check_owner(self) -> None:
        """Refuse use by a forked child.

        Raises:
            UsedAfterForkError: If this process is not the one that made the agent.
        """
        if self.owner != os.getpid():
            raise UsedAfterForkError(
                f"a sandbox of process {self.owner} was used in process {os.getpid()}, forked "
                "from it: make a new sandbox after the fork"
            )

    def greeting(self) -> float:
        """Seconds to wait for the first answer on a new connection."""
        settings = self.settings
        return settings.keepalive if self.has_answered else settings.start_timeout

    def is_dead(self) -> bool:
        """Whether the agent ended, and all of its sandboxes with it. False if not known."""
        return False

    def unreachable(self, error: AgentUnreachableError) -> AgentUnreachableError:
        """Say more about why the agent does not answer."""
        return error


class EmbeddedAgent(Agent):
    """An agent that this process started, and that ends with it."""

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
        os.close(self._log)

    def bury(self) -> None:
        """Drop what is left of an agent that ended by itself."""
        self._close_lifeline()
        self._remove()

    def _remove(self) -> None:
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


def _external(settings: Settings, path: str) -> Agent:
    """Use an agent that runs already, if it is ours or root's."""
    try:
        owner = os.stat(path).st_uid  # noqa: PTH116  (a path as text, for the extension)
    except OSError as error:
        raise AgentUnreachableError(
            f"socket {path} cannot be used: {error.strerror}: correct SANDBOXD_SOCKET, "
            "or unset it to use an agent of this process"
        ) from None
    if owner not in (0, os.geteuid()):
        raise SocketUntrustedError(
            f"socket {path} belongs to user {owner}: use an agent of your own"
        )
    return Agent(path, settings)


class _Current:
    """The agent of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._agent: Agent | None = None

    def get(self) -> Agent:
        with self._lock:
            agent = self._agent
            if agent is not None and not agent.is_dead():
                return agent
            self._agent = None
            if isinstance(agent, EmbeddedAgent):
                agent.bury()
            settings = _settings.read()
            if settings.socket is not None:
                self._agent = _external(settings, settings.socket)
            else:
                self._agent = EmbeddedAgent.start(settings)
            return self._agent

    def end(self) -> None:
        with self._lock:
            agent, self._agent = self._agent, None
        if isinstance(agent, EmbeddedAgent):
            agent.end()

    def before_fork(self) -> None:
        # A start that is half done would leave its pipe in the child, unknown to it.
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock.release()
        agent, self._agent = self._agent, None
        if isinstance(agent, EmbeddedAgent):
            agent.forget()


_current = _Current()
atexit.register(_current.end)
os.register_at_fork(
    before=_current.before_fork,
    after_in_parent=_current.after_fork_in_parent,
    after_in_child=_current.after_fork_in_child,
)

current_agent = _current.get
