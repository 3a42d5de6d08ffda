"""An agent as the SDK knows it: an address, and the connections to it."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

from sandboxd.exceptions import UsedAfterForkError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from sandboxd.client._loop import LoopConnection
    from sandboxd.client._settings import Settings
    from sandboxd.exceptions import AgentUnreachableError


REPAIR_SECONDS = 4.0
"""How long a broken connection is tried again, from its last success, if three keepalives are not
shorter. On a Unix socket only an agent that is gone refuses one."""

_LAST_CHANCE = 2.0
"""Seconds that an agent has to greet after three missed keepalives: its callers have waited."""


class Agent:
    """An agent that this process talks to."""

    is_child = False
    """Whether this process started it, and so learns of its end."""

    def __init__(self, path: str, settings: Settings) -> None:
        """Name an agent by its socket; nothing is sent."""
        self.path = path
        self.settings = settings
        self.owner = os.getpid()
        self.has_answered = False
        """Whether it is up, so that the next connection need not wait for its start."""
        self.is_suspect = False
        """Whether it fell silent on a connection, and no other was made since."""
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
        """Seconds to wait for the first answer on a new connection, which is made now."""
        settings = self.settings
        if self.is_suspect:
            self.is_suspect = False
            return min(settings.keepalive, _LAST_CHANCE)
        return settings.keepalive if self.has_answered else settings.start_timeout

    def repair_time(self) -> float:
        """Seconds for which a broken connection is tried again."""
        return min(REPAIR_SECONDS, 3 * self.settings.keepalive)

    def is_dead(self) -> bool:
        """Whether the agent ended, and all of its sandboxes with it. False if not known."""
        return False

    def unreachable(self, error: AgentUnreachableError) -> AgentUnreachableError:
        """Say more about why the agent does not answer."""
        return error
