"""The claim of a sandbox, and the calls that are made before and after it is answered.

Invariants: a call of an unbound handle is written behind the claim on the same connection, so the
agent, which holds calls until the sandbox is ready, begins them in order. A call that has to have
happened before later ones of the unbound handle, such as a write of a file, holds those back until
it ended. On another connection (a thread, a loop, a repair) the same claim goes first again; the
agent knows it by the sandbox's id. After `close` nothing is sent any more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from sandboxd._native import NativeError, list_execs_request, release_request
from sandboxd.client._channel import Channel
from sandboxd.exceptions import (
    AgentError,
    SandboxClosedError,
    SandboxError,
    SandboxLostError,
    SandboxNotFoundError,
    from_native,
)
from sandboxd.types import Startup

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sandboxd._native import Request, SandboxRecord
    from sandboxd.client._transport import Milestone, Pending, Transport

T = TypeVar("T")


class Binding:
    """One sandbox: its claim, its calls, its end."""

    def __init__(
        self,
        transport: Transport,
        sandbox_id: str,
        claim: Request[SandboxRecord],
        *,
        shared: bool = False,
    ) -> None:
        """Describe a sandbox, whose id others may use if it is `shared`; nothing is sent."""
        self.sandbox_id = sandbox_id
        self._shared = shared
        self.channel = Channel(transport)
        self.startup: Startup | None = None
        """Where the time of the start went; `None` until the sandbox is ready."""
        self._claim = claim
        self._claims: dict[Hashable, Pending[SandboxRecord]] = {}
        self._unwaited: dict[Hashable, Pending[SandboxRecord]] = {}
        """Claims that nobody waits for. Who takes one out decides what becomes of it."""
        self._ahead: list[Milestone] = []
        """Ends of calls of the unbound handle that later ones of it have to wait for."""
        self._bound = False
        self._closed = False
        self._failure: SandboxError | None = None
        self._claimed_at: float | None = None
        self._first_use: float | None = None

    @classmethod
    def joined(cls, transport: Transport, sandbox_id: str) -> Binding:
        """Describe a sandbox that somebody else claimed, and will release."""
        binding = cls(transport, sandbox_id, list_execs_request(sandbox_id))  # type: ignore[arg-type]  # (never sent)
        binding._bound = True
        return binding

    def begin(self) -> None:
        """Send the claim, if there is a connection to send it on; else the first call does."""
        if self.channel.transport.is_at_hand():
            try:
                self._claim_here()
            except NativeError as error:
                failure = from_native(error)
                # A connection that cannot be made is repaired by the first call.
                if not isinstance(failure, AgentError):
                    raise failure from None

    def is_leaked(self) -> bool:
        """Whether the sandbox was claimed and not closed, and its agent still has it."""
        agent = self.channel.transport.agent
        return self._claimed_at is not None and not self._closed and not agent.is_dead()

    async def call(self, request: Request[T], *, begins: bool = False) -> T:
        """Make a call about the sandbox, one that only `begins` something or is over at its end."""
        if self._closed:
            raise self._closed_error()
        if not self._bound:
            return await self._call_in_order(request, begins=begins)
        try:
            return await self.channel.transport.call(request)
        except NativeError as error:
            return await self._recovered(request, from_native(error))

    async def ready(self) -> None:
        """Wait until the sandbox is ready."""
        if self._closed:
            raise self._closed_error()
        if not self._bound:
            self._note_use()
            await self._bind(None)

    async def ready_in_order(self) -> None:
        """Wait until the sandbox is ready and what was asked of the unbound handle has happened."""
        if not self._bound:
            for each in list(self._ahead):
                await each.reached()
        await self.ready()

    def post(self, request: Request[object]) -> None:
        """Make a call whose outcome nobody waits for, if that is possible at once."""
        try:
            self.channel.transport.submit(request).forget()
        except NativeError:
            return

    async def close(self) -> None:
        """End the sandbox, in whatever state it is."""
        agent = self.channel.transport.agent
        agent.check_owner()
        if self._closed:
            return
        self._closed = True
        if self._claimed_at is None or self._is_refused():
            return
        try:
            if not self._bound:
                # A release that overtook the claim, on another connection, would leave a sandbox.
                claim = self._claim_here()
                if self._shared and not await self._is_ours(claim):
                    return
            await self.channel.call(release_request(self.sandbox_id))
        except NativeError as error:
            if not agent.is_dead():
                raise from_native(error) from None
        except (SandboxClosedError, SandboxLostError, SandboxNotFoundError):
            pass
        except AgentError:
            if not agent.is_dead():
                raise
        finally:
            self._forget_claims()

    async def _is_ours(self, claim: Pending[SandboxRecord]) -> bool:
        """Wait for the claim: one that is refused names somebody else's sandbox."""
        try:
            await self._bind(claim)
        except SandboxError:
            return not self._is_refused()
        return True

    def _is_refused(self) -> bool:
        """Whether the agent answered the claim with an error."""
        return self._failure is not None and not isinstance(self._failure, AgentError)

    async def _call_in_order(self, request: Request[T], *, begins: bool) -> T:
        self._note_use()
        ahead = list(self._ahead)
        over = None if begins else self.channel.transport.milestone()
        if over is not None:
            self._ahead.append(over)
        try:
            for each in ahead:
                await each.reached()
            if self._bound:
                return await self.call(request)
            if self._closed:
                raise self._closed_error()
            return await self._call_unbound(request)
        finally:
            if over is not None:
                self._ahead.remove(over)
                over.reach()

    async def _call_unbound(self, request: Request[T]) -> T:
        if self._failure is not None:
            raise self._failure
        try:
            claim = self._claim_here()
            pending = self.channel.transport.submit(request)
        except NativeError as error:
            # Not sent, so there is no order to keep: first the claim, then the call.
            await self._bind(None)
            return await self._recovered(request, from_native(error))
        try:
            await self._bind(claim)
        except BaseException:
            pending.cancel()
            raise
        try:
            return await pending.result()
        except NativeError as error:
            return await self._recovered(request, from_native(error))

    async def _recovered(self, request: Request[T], error: SandboxError) -> T:
        try:
            return await self.channel.repaired(request, error)
        except SandboxNotFoundError as unknown:
            # We had it: an agent that does not know it is another one, at the same address.
            raise SandboxLostError(
                f"sandbox {self.sandbox_id} is lost: {unknown}",
                may_have_run=error.may_have_run,
                reason="agent_restarted",
            ) from None
        except SandboxClosedError:
            if self._closed:
                raise self._closed_error() from None
            raise

    async def _bind(self, claim: Pending[SandboxRecord] | None) -> None:
        """Wait for the answer to the claim, which is sent first unless it was."""
        if self._failure is not None:
            raise self._failure
        try:
            try:
                if claim is None:
                    claim = self._claim_here()
                if not self._take(claim) and self._bound:
                    # Bound by another thread, which forgot this claim.
                    return
                record = await claim.shared()
            except NativeError as error:
                record = await self.channel.repaired(self._claim, from_native(error))
        except SandboxError as failure:
            self._failure = failure
            if self._closed:
                raise self._closed_error() from None
            raise
        self._note_bound(record)

    def _claim_here(self) -> Pending[SandboxRecord]:
        """Send the claim on the connection that calls go to now, unless it was sent there."""
        connection = self.channel.transport.connection()
        pending = self._claims.get(connection)
        if pending is None:
            if self._claimed_at is None:
                self._claimed_at = time.monotonic()
            pending = self.channel.transport.submit(self._claim)
            self._claims[connection] = self._unwaited[connection] = pending
            pending.watch(self._note_bound)
        return pending

    def _note_use(self) -> None:
        if self._first_use is None:
            self._first_use = time.monotonic()

    def _note_bound(self, record: SandboxRecord) -> None:
        if self._bound:
            return
        self._bound = True
        self.channel.transport.agent.has_answered = True
        waited = 0.0 if self._first_use is None else time.monotonic() - self._first_use
        # The agent's own figure: an answer may lie in the socket for as long as the caller is busy
        # with something else. It does not contain the start of the agent, which may be waited for.
        total = max(record.startup, waited)
        self.startup = Startup(total=total, hidden=total - waited, waited=waited)
        self._forget_claims()

    def _take(self, claim: Pending[SandboxRecord]) -> bool:
        """Take a claim out of those that nobody waits for; false if somebody did before."""
        for connection, pending in list(self._unwaited.items()):
            if pending is claim:
                # One step, so that of two threads one wins.
                return self._unwaited.pop(connection, None) is claim
        return False

    def _forget_claims(self) -> None:
        for pending in list(self._unwaited.values()):
            if self._take(pending):
                pending.forget()
        self._claims.clear()

    def _closed_error(self) -> SandboxClosedError:
        return SandboxClosedError(
            f"sandbox {self.sandbox_id} is closed: make a new one for further calls"
        )
