"""What agents say about themselves and their sandboxes, for tools and people."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sandboxd._native import info_request, list_sandboxes_request
from sandboxd.client import _settings, _state, _validate
from sandboxd.client._agent import current_agent
from sandboxd.client._agent_base import Agent
from sandboxd.client._blocking import BlockingTransport, drive
from sandboxd.client._channel import Channel
from sandboxd.client._results import agent_description, sandbox_info
from sandboxd.exceptions import AgentError, SandboxNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandboxd._native import Request
    from sandboxd.types import AgentInfo, SandboxInfo

T = TypeVar("T")


def agent_info() -> AgentInfo:
    """Return what the agent of this process is and what its host can enforce.

    Starts the agent, if this process has none yet. Blocks.

    Raises:
        AgentMissingError: If the agent's program is missing.
        AgentUnreachableError: If the agent does not answer; its last words are quoted.
        StateUnusableError: If the state folder cannot be used.
        VersionMismatchError: If the agent is of another minor release.
    """
    channel = Channel(BlockingTransport(current_agent()))
    return agent_description(drive(channel.call(info_request())))


def agents() -> list[AgentInfo]:
    """Return what all agents of this user on this machine are, and what they have done.

    Starts no agent, and leaves out whichever does not answer, as `sandboxes` does. Blocks.

    Raises:
        AgentUnreachableError: If the agent that `SANDBOXD_SOCKET` names does not answer.
    """
    return [agent_description(info) for info in _ask_all(info_request())]


def sandboxes(*, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
    """Return the sandboxes of all agents of this user on this machine.

    Starts no agent. One that does not answer is left out: it is ending, or about to be cleaned up.
    Blocks.

    Args:
        labels: Only sandboxes that carry all of these. `None`: all.

    Raises:
        InvalidArgumentError: If `labels` are not text.
        AgentUnreachableError: If the agent that `SANDBOXD_SOCKET` names does not answer.
    """
    request = list_sandboxes_request(_validate.labels(labels), False)  # noqa: FBT003  (positional, as every field)
    return [sandbox_info(record) for found in _ask_all(request) for record in found]


def agent_of(sandbox_id: str) -> Agent:
    """Return the agent that has a sandbox, among those of this user on this machine. Blocks.

    Raises:
        SandboxNotFoundError: If none has.
        AgentUnreachableError: If the agent that `SANDBOXD_SOCKET` names does not answer.
    """
    request = list_sandboxes_request({}, False)  # noqa: FBT003  (positional, as every field)
    for agent, found in _answers(request):
        if any(record.sandbox_id == sandbox_id for record in found):
            return agent
    raise SandboxNotFoundError(f"no agent of this user has a sandbox {sandbox_id!r}")


def _ask_all(request: Request[T]) -> list[T]:
    return [answer for _, answer in _answers(request)]


def _answers(request: Request[T]) -> list[tuple[Agent, T]]:
    """The answers of all agents of this user; of the one alone that the settings name."""
    settings = _settings.read()
    if settings.socket is not None:
        named = current_agent()
        return [(named, drive(Channel(BlockingTransport(named)).call(request)))]
    answers = []
    for socket in sorted((settings.state / _state.SOCKETS).glob("*.sock")):
        agent = Agent(str(socket), settings)
        # Its process started it earlier: nobody waits here for as long as a start may take.
        agent.has_answered = True
        transport = BlockingTransport(agent)
        try:
            answers.append((agent, drive(Channel(transport).call_once(request))))
        except AgentError:
            continue
    return answers
