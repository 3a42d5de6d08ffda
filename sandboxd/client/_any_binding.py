"""What a handle, its files and its processes need from whatever claimed the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from sandboxd._native import Request
    from sandboxd.client._channel import Channel
    from sandboxd.types import Startup

T = TypeVar("T")


class AnyBinding(Protocol):
    """One sandbox: its claim, its calls, its end."""

    sandbox_id: str

    @property
    def channel(self) -> Channel:
        """The way to its agent, once a call has succeeded."""

    @property
    def startup(self) -> Startup | None:
        """Where the time of the start went; `None` until the sandbox is ready."""

    def begin(self) -> object:
        """Send the claim, if that is possible from here and now; else the first call does."""

    def is_leaked(self) -> bool:
        """Whether the sandbox was claimed and not closed, as far as is known."""

    async def call(self, request: Request[T], *, begins: bool = False) -> T:
        """Make a call about the sandbox, one that only `begins` something or is over at its end."""

    async def ready(self) -> None:
        """Wait until the sandbox is ready."""

    async def ready_in_order(self) -> None:
        """Wait until the sandbox is ready and what was asked of the unbound handle has happened."""

    def post(self, request: Request[object]) -> None:
        """Make a call whose outcome nobody waits for, if that is possible at once."""

    async def close(self) -> None:
        """End the sandbox, in whatever state it is."""
