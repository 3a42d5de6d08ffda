"""Calls before and after the claim is answered, over a transport that only records."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sandboxd import (
    AgentUnreachableError,
    ConnectionLostError,
    SandboxClosedError,
    SandboxError,
    SandboxLostError,
    UnknownTemplateError,
)
from sandboxd._native import ERROR_CODES, NativeError
from sandboxd.client._binding import Binding
from sandboxd.client._loop import LoopMilestone

if TYPE_CHECKING:
    from collections.abc import Callable


class Pending:
    """A call whose outcome a test decides."""

    def __init__(self, transport: Transport, request: Any) -> None:
        self.transport = transport
        self.request = request
        self.forgotten = self.cancelled = False
        self.callback: Callable[[Any], object] = lambda _: None

    async def result(self) -> Any:
        outcome = self.transport.outcome(self.request)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    shared = result

    def watch(self, callback: Callable[[Any], object]) -> None:
        self.callback = callback

    def cancel(self) -> None:
        self.cancelled = True

    def forget(self) -> None:
        self.forgotten = True


class Transport:
    """A transport that records what is sent and answers from a script."""

    def __init__(self) -> None:
        self.dead = False
        self.agent: Any = SimpleNamespace(
            has_answered=False,
            is_child=False,
            is_dead=lambda: self.dead,
            check_owner=lambda: None,
            repair_time=lambda: 4.0,
            unreachable=lambda error: AgentUnreachableError(f"last words ({error})"),
        )
        self.at_hand = True
        self.here = "first"
        self.sent: list[Any] = []
        self.pending: list[Pending] = []
        self.script: dict[Any, deque[Any]] = {}
        self.slept: list[float] = []

    def answer(self, request: Any, *outcomes: Any) -> None:
        self.script.setdefault(request, deque()).extend(outcomes)

    def outcome(self, request: Any) -> Any:
        outcomes = self.script[request]
        return outcomes.popleft() if len(outcomes) > 1 else outcomes[0]

    def is_at_hand(self) -> bool:
        return self.at_hand

    def connection(self) -> str:
        return self.here

    async def call(self, request: Any) -> Any:
        return await self.submit(request).result()

    def submit(self, request: Any) -> Pending:
        self.sent.append(request)
        pending = Pending(self, request)
        self.pending.append(pending)
        return pending

    def stream(self, request: Any) -> Any:
        raise NotImplementedError

    def milestone(self) -> LoopMilestone:
        return LoopMilestone()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def in_thread(self, function: Any) -> Any:
        raise NotImplementedError


class Key:
    """A request; its identity is what a script is looked up by."""

    def __init__(self, name: str, *, repeatable: bool = True) -> None:
        self.name = name
        self.repeatable = repeatable


CLAIM: Any = Key("claim")
READ: Any = Key("read")
WRITE: Any = Key("write", repeatable=False)
RECORD = SimpleNamespace(startup=0.25)


def native(code: str, *, may_have_run: bool = False) -> NativeError:
    return NativeError(code, "words", may_have_run, "")


def unreachable() -> NativeError:
    return native("agent_unreachable")


def lost(*, may_have_run: bool = True) -> NativeError:
    return native("connection_lost", may_have_run=may_have_run)


@pytest.fixture
def transport() -> Transport:
    made = Transport()
    made.answer(CLAIM, RECORD)
    made.answer(READ, "content")
    made.answer(WRITE, "written")
    return made


@pytest.fixture
def binding(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> Binding:
    release = Key("release")
    transport.answer(release, None)
    monkeypatch.setattr("sandboxd.client._binding.release_request", lambda _: release)
    made = Binding(transport, "sb", CLAIM)
    made.begin()
    return made


def names(transport: Transport) -> list[str]:
    return [request.name for request in transport.sent]


async def test_a_call_follows_the_claim_without_waiting(
    binding: Binding, transport: Transport
) -> None:
    assert names(transport) == ["claim"]
    assert await binding.call(READ) == "content"
    assert names(transport) == ["claim", "read"]


async def test_the_claim_is_sent_by_the_first_call_where_no_loop_ran(transport: Transport) -> None:
    transport.at_hand = False
    binding = Binding(transport, "sb", CLAIM)
    binding.begin()
    assert names(transport) == []
    assert await binding.call(READ) == "content"
    assert names(transport) == ["claim", "read"]


async def test_another_connection_gets_the_same_claim_first(
    binding: Binding, transport: Transport
) -> None:
    transport.here = "second"
    await binding.call(READ)
    assert names(transport) == ["claim", "claim", "read"]
    assert transport.pending[0].forgotten


async def test_a_ready_sandbox_is_not_claimed_again(binding: Binding, transport: Transport) -> None:
    await binding.ready()
    transport.here = "second"
    await binding.call(READ)
    assert names(transport) == ["claim", "read"]


async def test_z5_a_claim_that_fails_is_the_error_of_every_call(
    binding: Binding, transport: Transport
) -> None:
    transport.script[CLAIM] = deque([native("unknown_template")])
    for _ in range(2):
        with pytest.raises(UnknownTemplateError):
            await binding.call(READ)
    assert names(transport) == ["claim", "read"]
    assert transport.pending[1].cancelled


async def test_after_close_nothing_is_sent(binding: Binding, transport: Transport) -> None:
    await binding.close()
    await binding.close()
    with pytest.raises(SandboxClosedError):
        await binding.call(READ)
    with pytest.raises(SandboxClosedError):
        await binding.ready()
    assert names(transport) == ["claim", "release"]


async def test_z5_a_handle_that_was_never_used_anywhere_closes_silently(
    transport: Transport,
) -> None:
    transport.at_hand = False
    binding = Binding(transport, "sb", CLAIM)
    binding.begin()
    await binding.close()
    assert names(transport) == []


async def test_z5_closing_elsewhere_before_binding_cannot_overtake_the_claim(
    binding: Binding, transport: Transport
) -> None:
    transport.here = "second"
    await binding.close()
    assert names(transport) == ["claim", "claim", "release"]


async def test_closing_a_handle_that_was_refused_ends_nobody_elses_sandbox(
    transport: Transport,
) -> None:
    transport.script[CLAIM] = deque([native("sandbox_exists")])
    for used in (True, False):
        transport.sent.clear()
        binding = Binding(transport, "mine", CLAIM, shared=True)
        binding.begin()
        if used:
            with pytest.raises(SandboxError):
                await binding.ready()
        await binding.close()
        assert names(transport) == ["claim"]


async def test_closing_what_died_is_no_error(binding: Binding, transport: Transport) -> None:
    await binding.ready()
    transport.dead = True
    await binding.close()


async def test_z5_the_start_is_split_into_hidden_and_waited(
    binding: Binding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 s of start-up, first use after 3 s: 5 s are waited, 3 s are hidden."""
    now = 100.0
    monkeypatch.setattr("sandboxd.client._binding.time.monotonic", lambda: now)
    binding._note_use()
    now = 105.0
    binding._note_bound(SimpleNamespace(startup=8.0))  # type: ignore[arg-type]  # (all that is read)
    assert binding.startup is not None
    assert (binding.startup.total, binding.startup.hidden, binding.startup.waited) == (8, 3, 5)


async def test_z5_a_start_that_nobody_waited_for_is_hidden(
    binding: Binding, transport: Transport
) -> None:
    transport.pending[0].callback(RECORD)
    await asyncio.sleep(0)
    await binding.call(READ)
    assert binding.startup is not None
    assert (binding.startup.total, binding.startup.waited) == (0.25, 0)


@pytest.mark.parametrize(
    ("request_", "failure", "attempts"),
    [
        (READ, unreachable(), 2),
        (WRITE, unreachable(), 2),
        (READ, lost(), 2),
        (WRITE, lost(may_have_run=False), 2),
        (WRITE, lost(), 1),
    ],
)
async def test_r3_only_what_is_safe_is_sent_again(
    binding: Binding, transport: Transport, request_: Any, failure: Exception, attempts: int
) -> None:
    await binding.ready()
    transport.sent.clear()
    transport.script[request_].appendleft(failure)
    if attempts == 1:
        with pytest.raises(ConnectionLostError) as error:
            await binding.call(request_)
        assert error.value.may_have_run
    else:
        await binding.call(request_)
    assert len(transport.sent) == attempts


@pytest.mark.parametrize(
    "code",
    sorted(set(ERROR_CODES) - {"agent_unreachable", "connection_lost", "sandbox_not_found"}),
)
async def test_r3_an_answer_is_never_repeated(
    binding: Binding, transport: Transport, code: str
) -> None:
    await binding.ready()
    transport.sent.clear()
    transport.script[READ].appendleft(native(code))
    with pytest.raises(SandboxError):
        await binding.call(READ)
    assert len(transport.sent) == 1


async def test_h2_a_dead_agent_has_lost_the_sandbox(binding: Binding, transport: Transport) -> None:
    await binding.ready()
    transport.dead = True
    for failure, may_have_run in ((unreachable(), False), (lost(), True)):
        transport.script[READ] = deque([failure])
        with pytest.raises(SandboxLostError) as error:
            await binding.call(READ)
        assert (error.value.reason, error.value.may_have_run) == ("agent_died", may_have_run)


async def test_h2_a_connection_that_breaks_just_before_its_agent_ends_is_a_lost_sandbox(
    binding: Binding, transport: Transport
) -> None:
    """The kernel closes the sockets of a process before its parent can learn of its end."""
    await binding.ready()
    transport.agent.is_child = True
    transport.agent.is_dead = lambda: len(transport.slept) >= 3
    transport.script[WRITE] = deque([lost()])
    with pytest.raises(SandboxLostError) as error:
        await binding.call(WRITE)
    assert (error.value.reason, error.value.may_have_run) == ("agent_died", True)


async def test_r8_an_agent_that_never_answered_is_unreachable_not_lost(
    binding: Binding, transport: Transport
) -> None:
    transport.dead = True
    transport.script[CLAIM] = deque([unreachable()])
    with pytest.raises(AgentUnreachableError, match="last words") as error:
        await binding.call(READ)
    assert not error.value.may_have_run


async def test_r9_another_agent_at_the_same_address_is_a_lost_sandbox(
    binding: Binding, transport: Transport
) -> None:
    await binding.ready()
    transport.script[READ] = deque([native("sandbox_not_found")])
    with pytest.raises(SandboxLostError) as error:
        await binding.call(READ)
    assert error.value.reason == "agent_restarted"


async def test_repair_ends_and_says_what_is_not_known(
    binding: Binding, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    await binding.ready()
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1
        return now

    monkeypatch.setattr("sandboxd.client._channel.time.monotonic", clock)
    transport.script[READ] = deque([lost(), unreachable()])
    with pytest.raises(ConnectionLostError) as error:
        await binding.call(READ)
    assert error.value.may_have_run
    assert transport.slept[0] == 0
    assert max(transport.slept) <= 0.25


@pytest.mark.parametrize(
    ("lived", "least", "most"),
    [
        # Broken as soon as it is there: what comes would never get through.
        (0.01, 4, 5),
        # It holds for a while, each time, and nothing comes.
        (0.06, 60, 61),
    ],
)
async def test_r4_connections_that_break_again_and_again_end_a_call_after_a_bounded_time(  # noqa: PLR0917  (fixtures)
    binding: Binding,
    transport: Transport,
    monkeypatch: pytest.MonkeyPatch,
    lived: float,
    least: float,
    most: float,
) -> None:
    await binding.ready()
    now = 0.0
    monkeypatch.setattr("sandboxd.client._channel.time.monotonic", lambda: now)

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def outcome(_: Any) -> NativeError:
        nonlocal now
        now += lived
        return lost()

    monkeypatch.setattr(transport, "sleep", sleep)
    monkeypatch.setattr(transport, "outcome", outcome)
    with pytest.raises(ConnectionLostError):
        await binding.call(READ)
    assert least <= now <= most


async def test_r4_a_command_that_outlives_many_connections_is_waited_for(
    binding: Binding, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    await binding.ready()
    now = 0.0
    monkeypatch.setattr("sandboxd.client._channel.time.monotonic", lambda: now)

    def outcome(_: Any) -> Any:
        nonlocal now
        now += 1.0
        return lost() if now < 3600 else "answer"

    monkeypatch.setattr(transport, "outcome", outcome)
    assert await binding.call(READ) == "answer"


def test_names_are_not_repeated_after_a_fork() -> None:
    from sandboxd.client import _ids  # noqa: PLC0415  (beside its only use)

    ours = _ids.fresh("ex")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, _ids.fresh("ex").encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 100).decode()
    os.close(read)
    os.close(write)
    assert ours.rsplit("-", 1)[0] != theirs.rsplit("-", 1)[0]
