"""Sandboxes and execs that somebody else made, for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd.client import _validate
from sandboxd.client._agent_info import agent_of
from sandboxd.client._binding import Binding
from sandboxd.client._loop import LoopTransport
from sandboxd.client._process import AsyncProcess
from sandboxd.client._sandbox import AsyncSandbox
from sandboxd.exceptions import ExecNotFoundError

if TYPE_CHECKING:
    from typing_extensions import Self


class JoinedSandbox(AsyncSandbox):
    """A sandbox of any agent of this user. Closing it ends nothing: it is not ours.

    Args:
        sandbox_id: Its name.

    Raises:
        SandboxNotFoundError: If no agent of this user has it.
        AgentUnreachableError: If the agent that `SANDBOXD_SOCKET` names does not answer.
    """

    def __init__(self, sandbox_id: str) -> None:
        """Find the agent. Blocks."""
        name = _validate.identifier("sandbox_id", sandbox_id)
        self._template = ""
        self._binding = Binding.joined(LoopTransport(agent_of(name)), name)

    async def __aenter__(self) -> Self:
        """Return the handle."""
        return self

    async def close(self) -> None:
        """Do nothing."""

    async def attach_running(self, exec_id: str) -> AsyncProcess:
        """Return a process that runs, from the beginning of what is kept of its output.

        Raises:
            ExecNotFoundError: If none with this name runs.
        """
        for each in await self.execs():
            if each.exec_id == exec_id and each.running:
                process = AsyncProcess(self._binding, exec_id, each.pid, stdin=True)
                await process._input.find_place()  # noqa: SLF001  (of this package)
                return process
        raise ExecNotFoundError(f"no exec {exec_id!r} runs in sandbox {self.id}")
