"""Serving the app at a Unix socket or on the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from sandboxd.exceptions import InvalidArgumentError, SandboxError

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import FastAPI

LOG = logging.getLogger("sandboxd.api")

_BACKLOG = 4_096
"""Connections that may wait to be accepted: a burst of trainers begins with one each."""

_GRACE = 5
"""Seconds that requests have to end when the server does."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: a Unix socket, or a host and a port."""

    path: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8010
    """0: any that is free."""

    def listen(self) -> socket.socket:
        """Open it, for nobody but this user as far as the system can tell users apart.

        Raises:
            InvalidArgumentError: If others could reach it, or it is in use.
        """
        try:
            return self._listen_at_path(self.path) if self.path else self._listen_at_port()
        except OSError as error:
            raise InvalidArgumentError(
                f"cannot listen at {self.path or f'{self.host}:{self.port}'}: {error.strerror}: "
                "choose another socket or port"
            ) from None

    def _listen_at_path(self, path: Path) -> socket.socket:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.lstat().st_mode) and not _answers(path):
                path.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            listener.bind(str(path))
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(mask)
        listener.listen(_BACKLOG)
        return listener

    def _listen_at_port(self) -> socket.socket:
        host = "127.0.0.1" if self.host == "localhost" else self.host
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            address = None
        if address is None or not address.is_loopback:
            raise InvalidArgumentError(
                f"host must be an address of the loopback interface, not {self.host}: "
                "there are no keys yet, so whoever reaches the API may use it"
            )
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004  (IPv6)
        # The number matters: asyncio sends small answers at once only if a socket says TCP.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, self.port))
        except OSError:
            listener.close()
            raise
        listener.listen(_BACKLOG)
        return listener


def serve(app: FastAPI, address: Address) -> None:
    """Serve until SIGINT or SIGTERM, then let requests end.

    Raises:
        InvalidArgumentError: If the address cannot be had.
        SandboxError: If the control plane cannot start.
    """
    listener = address.listen()
    url = _url(listener)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=_GRACE
    )
    server = _Server(config, url)
    # The server handles these while it runs, and raises them again at its end, for a status that
    # says so: an end that was asked for and went well is a success.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    try:
        asyncio.run(server.serve(sockets=[listener]))
    finally:
        listener.close()
        if address.path:
            address.path.unlink(missing_ok=True)
    if not server.started:
        raise SandboxError("the control plane could not start: see the lines above")


class _Server(uvicorn.Server):
    """Says when it is ready, so that scripts can wait for the line."""

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            LOG.info("serving url=%s pid=%d", self._url, os.getpid())


def _url(listener: socket.socket) -> str:
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{os.path.abspath(name)}"  # noqa: PTH100  (text in, text out)
    host, port = name[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
