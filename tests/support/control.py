"""A control plane in a process of its own, as users run it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from sandboxd.backends.local import _end
from tests.support.ordinary import ROOT
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_URL = re.compile(r"serving url=(\S+) pid=")


class ControlPlane:
    """`sandboxd serve` with a state folder of its own; gone with its agent after the block."""

    def __init__(self, *pools: str, socket: bool = False, **env: str) -> None:
        """Describe it.

        Args:
            *pools: As `--pool` takes them.
            socket: Whether it listens at a Unix socket instead of a port.
            **env: More variables of its process.
        """
        self.state = Path(tempfile.mkdtemp(prefix="sandboxd-control-"))
        self._pools = pools
        self._socket = socket
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self.state / "control.log"
        self._seen = 0
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.stop()
        _end(str(self.state / "sockets" / "serve.sock"))
        if error is not None:
            sys.stderr.write(self.log())
        shutil.rmtree(self.state)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """All that it has said."""
        return self._log.read_text()

    def start(self) -> None:
        """Start it, and wait until it serves."""
        options = [option for pool in self._pools for option in ("--pool", pool)]
        where = ["--socket", str(self.state / "api.sock")] if self._socket else ["--port", "0"]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("SANDBOXD_")
        }
        binary = os.environ.get("SANDBOXD_AGENT_BINARY")
        if binary:
            environment["SANDBOXD_AGENT_BINARY"] = binary
        self._seen = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sandboxd.cli", "serve", *where, *options],
                cwd=ROOT,
                env={**environment, "SANDBOXD_STATE": str(self.state), **self._env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.url = wait_until(self._find_url, within=30)

    def _find_url(self) -> str:
        said = self._log.read_bytes()[self._seen :].decode()
        assert self._process is not None
        assert self._process.poll() is None, said
        found = _URL.search(said)
        return found.group(1) if found else ""

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it, and return its status. Its agent lives on if sandboxes are claimed."""
        assert self._process is not None
        self._process.send_signal(how)
        status = self._process.wait(30)
        self._process = None
        return status

    def client(self) -> httpx.Client:
        """Speak HTTP to it."""
        if self._socket:
            transport = httpx.HTTPTransport(uds=self.url.removeprefix("unix:"))
            return httpx.Client(transport=transport, base_url="http://sandboxd", timeout=60)
        return httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def get(self, path: str) -> Any:
        """The body at a path."""
        with self.client() as client:
            answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pool(self, template: str = "host") -> dict[str, Any]:
        """A pool as it is now."""
        pools: list[dict[str, Any]] = self.get("/v1/pools")["pools"]
        return next(each for each in pools if each["template"] == template)

    def wait_for_pool(self, ready: int) -> None:
        """Wait until so many sandboxes wait for a claim, and none is being made."""
        wait_until(lambda: self.pool()["ready"] == ready and not self.pool()["making"], within=30)

    def ids(self) -> list[str]:
        """The claimed sandboxes."""
        return [each["id"] for each in self.get("/v1/sandboxes")["sandboxes"]]
