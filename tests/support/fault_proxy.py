"""A socket between client and agent that cuts and drops on command."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

CHUNK = 65_536


class FaultProxy:
    """Relays connections to the agent's socket, faithfully until told otherwise.

    Args:
        path: Where to listen.
        agent: Socket of the agent.
    """

    def __init__(self, path: Path, agent: Path) -> None:
        self.path = path
        self.agent = agent
        self.connections = 0
        """Connections that were made so far."""
        self.cut_after: int | None = None
        """Cut a connection when the agent has said so many bytes on it, the last ones unsaid."""
        self.cut_every: float | None = None
        """Cut every connection when it is so many seconds old."""
        self.silent = False
        """Keep connections open and relay nothing."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._stopped = False

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped = True
        for thread in list(self._threads):
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._stopped:
            if select.select([self._listener], [], [], 0.05)[0]:
                client, _ = self._listener.accept()
                self.connections += 1
                relay = threading.Thread(target=self._relay, args=(client,))
                self._threads.append(relay)
                relay.start()

    def _relay(self, client: socket.socket) -> None:
        began, said = time.monotonic(), 0
        with client, socket.socket(socket.AF_UNIX) as agent, contextlib.suppress(OSError):
            agent.connect(str(self.agent))
            while not self._stopped:
                if self.cut_every is not None and time.monotonic() > began + self.cut_every:
                    return
                if self.silent:
                    time.sleep(0.02)
                    continue
                for ready in select.select([client, agent], [], [], 0.02)[0]:
                    data = ready.recv(CHUNK)
                    said += len(data) if ready is agent else 0
                    if not data or (self.cut_after is not None and said > self.cut_after):
                        return
                    (client if ready is agent else agent).sendall(data)
