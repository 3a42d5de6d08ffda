"""The agent of this process: found or started when it is first needed.

Invariants: a process has at most one living agent, and starts the next only when that one is dead.
An agent belongs to the process that started it; a forked child starts one of its own.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING

from sandboxd.client import _settings
from sandboxd.client._agent_base import Agent
from sandboxd.client._embedded import EmbeddedAgent
from sandboxd.exceptions import AgentUnreachableError, SocketUntrustedError

if TYPE_CHECKING:
    from sandboxd.client._settings import Settings


def _external(settings: Settings, path: str, remedy: str) -> Agent:
    """Use an agent that runs already, if it is ours or root's."""
    try:
        owner = os.stat(path).st_uid  # noqa: PTH116  (a path as text, for the extension)
    except OSError as error:
        raise AgentUnreachableError(
            f"socket {path} cannot be used: {error.strerror}: {remedy}"
        ) from None
    if owner not in (0, os.geteuid()):
        raise SocketUntrustedError(
            f"socket {path} belongs to user {owner}: use an agent of your own"
        )
    return Agent(path, settings)


class _External:
    """The agents of control APIs, one object for each socket, so that connections are shared."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._agents: dict[str, Agent] = {}

    def get(self, settings: Settings, path: str) -> Agent:
        with self._lock:
            agent = self._agents.get(path)
            if agent is None:
                remedy = "its control API is on another machine, or its agent has ended"
                agent = self._agents[path] = _external(settings, path, remedy)
                # It answered the control plane.
                agent.has_answered = True
            return agent

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._agents = {}


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
                remedy = "correct SANDBOXD_SOCKET, or unset it to use an agent of this process"
                self._agent = _external(settings, settings.socket, remedy)
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

_externals = _External()
os.register_at_fork(after_in_child=_externals.forget)

current_agent = _current.get
external_agent = _externals.get
