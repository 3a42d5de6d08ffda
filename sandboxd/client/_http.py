"""The control API over HTTP: claims, and releases of what is not bound yet; nothing else.

One thread with an event loop and one pool of connections serve every handle of a process, whatever
loops and threads those are used in; they start with the first handle that names an API. Loaded only
then, and httpx with it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sandboxd.exceptions import (
    ControlUnreachableError,
    InvalidArgumentError,
    SandboxError,
    from_code,
)

try:
    import httpx
except ModuleNotFoundError as error:
    if error.name != "httpx":
        raise
    raise InvalidArgumentError(
        "a control API needs httpx: pip install 'sandboxd[remote]', or unset SANDBOXD_URL"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from concurrent.futures import Future

_CONNECT = 5.0
"""Seconds for a connection."""

_ANSWER = 180.0
"""Seconds for an answer. Above the time that a control plane gives an agent (60 s), twice, and a
wait in its queue."""

_REPAIR = 10.0
"""Seconds for which a request whose answer was lost is sent again: a control plane that is started
again is back within two."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

_CONNECTIONS = 256
"""Requests of this process at one time; more wait here, in order."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The answer to a claim."""

    path: str
    """Socket of the agent."""
    sent_at: float
    answered_at: float
    """By the monotonic clock."""


class ControlApi:
    """One control API, as this process uses it."""

    def __init__(self, url: str) -> None:
        """Start the thread. Nothing is sent."""
        self._url = url
        self._client = _client(url)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="sandboxd-control", daemon=True
        )
        self._thread.start()

    def claim(self, sandbox_id: str, body: Mapping[str, Any]) -> Future[Granted]:
        """Send a claim; from any thread."""
        return self._begin(self._claim(sandbox_id, {"id": sandbox_id, **body}))

    def release(self, sandbox_id: str) -> Future[None]:
        """Send a release; from any thread."""
        return self._begin(self._release(sandbox_id))

    def stop(self) -> None:
        """Close the connections and end the thread. What is under way is given up."""

        async def close() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._client.aclose()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(_CONNECT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CONNECT)
        self._loop.close()

    def _begin(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _claim(self, sandbox_id: str, body: Mapping[str, Any]) -> Granted:
        sent_at = time.monotonic()
        answer = await self._send(
            "POST", "/v1/sandboxes", json=body, headers={"Idempotency-Key": sandbox_id}
        )
        kind, _, path = str(answer["agent"]["address"]).partition(":")
        if kind != "unix":
            raise SandboxError(
                f"the agent of sandbox {sandbox_id} is at {kind}:{path}: this SDK "
                "knows unix: only, so it is too old"
            )
        return Granted(path, sent_at, time.monotonic())

    async def _release(self, sandbox_id: str) -> None:
        await self._send("DELETE", f"/v1/sandboxes/{quote(sandbox_id, safe='')}")

    async def _send(self, method: str, path: str, **options: Any) -> Any:
        """Send a request until it is answered; a second arrival finds what the first one made."""
        until = time.monotonic() + _REPAIR
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = await self._client.request(method, path, **options)
            except httpx.TransportError as error:
                if time.monotonic() + pause > until or isinstance(error, httpx.ReadTimeout):
                    raise ControlUnreachableError(
                        f"control API {self._url} does not answer: "
                        f"{error or type(error).__name__}: "
                        "start it with `sandboxd serve`, or unset SANDBOXD_URL",
                        may_have_run=not isinstance(error, httpx.ConnectError),
                    ) from None
            else:
                return _body(answer)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _client(url: str) -> httpx.AsyncClient:
    scheme, _, rest = url.partition(":")
    transport = None
    if scheme == "unix" and rest.startswith("/"):
        base = "http://sandboxd"
        transport = httpx.AsyncHTTPTransport(uds=rest, limits=_limits())
    elif scheme == "http" and rest.startswith("//") and rest != "//":
        base = url
    else:
        raise InvalidArgumentError(
            "url must be http://HOST:PORT or unix:/PATH, as `sandboxd serve` prints it, "
            f"not {url!r}"
        )
    try:
        # Proxies of the environment are for the world outside.
        return httpx.AsyncClient(
            base_url=base,
            transport=transport,
            limits=_limits(),
            timeout=httpx.Timeout(_ANSWER, connect=_CONNECT, pool=None),
            trust_env=False,
        )
    except httpx.InvalidURL as error:
        raise InvalidArgumentError(f"url {url!r} is not one: {error}") from None


def _limits() -> httpx.Limits:
    return httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)


def _body(answer: httpx.Response) -> Any:
    """Return the body of an answer, or raise what it says."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    if answer.is_success and body is not None:
        return body
    if not isinstance(body, dict) or "code" not in body:
        raise ControlUnreachableError(
            f"{answer.url.host} answered {answer.status_code} without a reason of the control API: "
            "correct the url",
            may_have_run=True,
        )
    raise from_code(
        str(body["code"]),
        str(body.get("detail", "")),
        may_have_run=bool(body.get("may_have_run", False)),
        reason=str(body.get("reason", "")),
    )


class _Known:
    """The control APIs of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._apis: dict[str, ControlApi] = {}

    def get(self, url: str) -> ControlApi:
        with self._lock:
            api = self._apis.get(url)
            if api is None:
                api = self._apis[url] = ControlApi(url)
            return api

    def stop(self) -> None:
        with self._lock:
            apis, self._apis = self._apis, {}
        for api in apis.values():
            api.stop()

    def forget(self) -> None:
        """Drop what a forked child has of its parent's: the threads are not in it."""
        self._lock = threading.Lock()
        self._apis = {}


_known = _Known()
atexit.register(_known.stop)
os.register_at_fork(after_in_child=_known.forget)

control_api = _known.get
stop = _known.stop
