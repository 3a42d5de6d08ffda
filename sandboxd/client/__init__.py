"""The SDK: handles of sandboxes, and the way to the agent that has them."""

from sandboxd._native import __version__
from sandboxd.client._agent_info import agent_info, agents, sandboxes
from sandboxd.client._file_streams import AsyncArchiveStream, AsyncFileStream, AsyncFileWatch
from sandboxd.client._files import AsyncFiles
from sandboxd.client._many import run_many, run_many_async
from sandboxd.client._process import AsyncProcess
from sandboxd.client._sandbox import AsyncSandbox
from sandboxd.client._shell import AsyncShell
from sandboxd.client._sync import (
    ArchiveStream,
    Files,
    FileStream,
    FileWatch,
    Process,
    Sandbox,
    Shell,
)

__all__ = [
    "ArchiveStream",
    "AsyncArchiveStream",
    "AsyncFileStream",
    "AsyncFileWatch",
    "AsyncFiles",
    "AsyncProcess",
    "AsyncSandbox",
    "AsyncShell",
    "FileStream",
    "FileWatch",
    "Files",
    "Process",
    "Sandbox",
    "Shell",
    "__version__",
    "agent_info",
    "agents",
    "run_many",
    "run_many_async",
    "sandboxes",
]
