"""The claim of a sandbox through a control API, and the same calls as `Binding` has.

Invariants: the claim goes to the API, under the name of the sandbox, and everything after it to the
agent itself; so the API may be gone from then on. At the agent the handle claims once more, which
finds what the API claimed: what is asked of the handle then follows in order, as ever. Calls made
before the API has answered wait, and go on in the order in which they came.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from sandboxd.client import _settings
from sandboxd.client._agent import external_agent
from sandboxd.client._binding import Binding
from sandboxd.client._http import control_api
from sandboxd.exceptions import (
    AgentError,
    SandboxClosedError,
    SandboxError,
    UsedAfterForkError,
)
from sandboxd.types import Startup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from concurrent.futures import Future

    from sandboxd._native import Request, SandboxRecord
    from sandboxd.client._agent_base import Agent
    from sandboxd.client._channel import Channel
    from sandboxd.client._http import Granted
    from sandboxd.client._transport import Transport

T = TypeVar("T")


class ServedBinding:
    """One sandbox of a control API. See `AnyBinding` for what is not described here."""

    def __init__(  # noqa: PLR0917  (each is a part, and there is one caller)
        self,
        url: str,
        transport: Callable[[Agent], Transport],
        wait: Callable[[Future[Any]], Awaitable[Any]],
        sandbox_id: str,
        claim: Request[SandboxRecord],
        body: Mapping[str, Any],
    ) -> None:
        """Describe a sandbox; nothing is sent.

        Args:
            url: Of the API.
            transport: Makes the way to an agent.
            wait: Waits for an answer of the API; cancelling that cancels nothing.
            sandbox_id: Its name.
            claim: The claim as agents take it.
            body: The same as the API takes it, without the name.
        """
        self.sandbox_id = sandbox_id
        self._api = control_api(url)
        self._transport = transport
        self._wait = wait
        self._claim = claim
        self._body = body
        self._granted: Future[Granted] | None = None
        self._inner: Binding | None = None
        self._waiting = 0
        """Calls that wait for the answer, or for those before them."""
        self._closed = False
        self._first_use: float | None = None
        self._owner = os.getpid()
        self._lock = threading.Lock()
        """Held while the way to the agent is made."""

    @property
    def channel(self) -> Channel:
        """The way to the agent, once a call has succeeded."""
        if self._inner is None:
            raise SandboxError(f"sandbox {self.sandbox_id} is not ready yet: call ready() first")
        return self._inner.channel

    @property
    def startup(self) -> Startup | None:
        """Where the time of the start went; `None` until the sandbox is ready."""
        if self._granted is None or self._inner is None or self._inner.startup is None:
            return None
        granted = self._granted.result()
        total = granted.answered_at - granted.sent_at
        first_use = granted.answered_at if self._first_use is None else self._first_use
        waited = min(total, max(0.0, granted.answered_at - first_use))
        return Startup(total=total, hidden=total - waited, waited=waited)

    def begin(self) -> Future[Granted]:
        """Send the claim."""
        self._granted = self._api.claim(self.sandbox_id, self._body)
        return self._granted

    def is_leaked(self) -> bool:
        """Whether the sandbox was claimed and not closed."""
        if self._closed or self._granted is None or self._owner != os.getpid():
            return False
        return not self._granted.done() or self._granted.exception() is None

    async def call(self, request: Request[T], *, begins: bool = False) -> T:
        """Make a call about the sandbox."""
        return await (await self._bound()).call(request, begins=begins)

    async def ready(self) -> None:
        """Wait until the sandbox is ready."""
        await (await self._bound()).ready()

    async def ready_in_order(self) -> None:
        """Wait until the sandbox is ready and what was asked before has happened."""
        await (await self._bound()).ready_in_order()

    def post(self, request: Request[object]) -> None:
        """Make a call whose outcome nobody waits for, if that is possible at once."""
        if self._inner is not None:
            self._inner.post(request)

    async def close(self) -> None:
        """End the sandbox, in whatever state it is."""
        self._check_owner()
        if self._closed:
            return
        self._closed = True
        granted = self._granted
        if granted is None:
            return
        if granted.done():
            if granted.exception() is not None:
                return
            try:
                await self._make_inner(granted.result()).close()
            except AgentError:
                # Whether it is still there its control plane may know better than we do.
                await self._wait(self._api.release(self.sandbox_id))
            return
        await self._wait(self._api.release(self.sandbox_id))
        # The claim is answered by that, with an error; or it was faster, and the release ended it.
        granted.add_done_callback(_look_at)

    async def _bound(self) -> Binding:
        """Wait for the answer to the claim, behind those who wait already."""
        self._check_owner()
        if self._closed:
            raise self._closed_error()
        if self._inner is not None and not self._waiting:
            return self._inner
        if self._first_use is None:
            self._first_use = time.monotonic()
        claim = self._granted or self.begin()
        self._waiting += 1
        try:
            granted: Granted = await self._wait(claim)
        except SandboxError:
            if self._closed:
                raise self._closed_error() from None
            raise
        finally:
            self._waiting -= 1
        if self._closed:
            raise self._closed_error()
        return self._make_inner(granted)

    def _make_inner(self, granted: Granted) -> Binding:
        with self._lock:
            if self._inner is None:
                agent = external_agent(_settings.read(), granted.path)
                inner = Binding(self._transport(agent), self.sandbox_id, self._claim)
                inner.begin()
                self._inner = inner
            return self._inner

    def _check_owner(self) -> None:
        if self._owner != os.getpid():
            raise UsedAfterForkError(
                f"a sandbox of process {self._owner} was used in process {os.getpid()}, forked "
                "from it: make a new sandbox after the fork"
            )

    def _closed_error(self) -> SandboxClosedError:
        return SandboxClosedError(
            f"sandbox {self.sandbox_id} is closed: make a new one for further calls"
        )


def _look_at(future: Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


Checked = tuple[
    str,
    tuple[int | None, int | None, int | None, int | None, int | None],
    int | None,
    int | None,
    list[tuple[bytes, bytes]],
    bytes,
    str,
    dict[str, str],
]
"""The fields of a claim, as `claim_request` takes them behind the name."""


def body(checked: Checked, ttl: float | None, idle_timeout: float | None) -> dict[str, Any]:
    """Put a claim as the API takes it: times in seconds, which it rounds as we do."""
    template, limits, _, _, env, cwd, user, labels = checked
    memory, pids, cpu_millis, disk, output = limits
    cpus = None if cpu_millis is None else cpu_millis / 1000
    named = {"memory": memory, "pids": pids, "cpus": cpus, "disk": disk, "output": output}
    fields = {
        "template": template,
        "limits": {name: value for name, value in named.items() if value is not None},
        "ttl": ttl,
        "idle_timeout": idle_timeout,
        "env": {_text(name): _text_or_base64(value) for name, value in env},
        "cwd": _text_or_base64(cwd) if cwd else None,
        "user": user or None,
        "labels": labels,
    }
    return {name: value for name, value in fields.items() if value not in (None, {})}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _text_or_base64(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
