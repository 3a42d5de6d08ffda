r"""Isolated sandboxes for running untrusted programs, about as fast as a local process.

    from sandboxd import Sandbox

    with Sandbox() as sandbox:
        result = sandbox.run("python3 -c 'print(6*7)'", timeout=10)
        assert result.stdout == "42\n" and result.exit_code == 0

`Sandbox` blocks and `AsyncSandbox` is awaited; they are otherwise the same.
"""

from sandboxd.client import (
    AsyncFiles,
    AsyncProcess,
    AsyncSandbox,
    Files,
    Process,
    Sandbox,
    __version__,
    agent_info,
    run_many,
    run_many_async,
    sandboxes,
)
from sandboxd.exceptions import (
    AgentError,
    AgentMissingError,
    AgentUnreachableError,
    ConnectionLostError,
    DirectoryNotEmptyError,
    DiskFullError,
    ExecConflictError,
    ExecFailedError,
    ExecNotFoundError,
    FileError,
    FileFailedError,
    InternalError,
    InvalidArgumentError,
    LaunchFailedError,
    NotARegularFileError,
    PermissionDeniedError,
    ResourceExhaustedError,
    SandboxClosedError,
    SandboxError,
    SandboxFileExistsError,
    SandboxFileNotFoundError,
    SandboxIsADirectoryError,
    SandboxLostError,
    SandboxNotADirectoryError,
    SandboxNotFoundError,
    SocketUntrustedError,
    StateUnusableError,
    UnauthenticatedError,
    UnknownTemplateError,
    UnsupportedError,
    UsedAfterForkError,
    VersionMismatchError,
)
from sandboxd.types import (
    AgentInfo,
    Capability,
    Cause,
    Command,
    ExecInfo,
    ExecResult,
    FileEntry,
    Limits,
    Output,
    SandboxInfo,
    Startup,
    WriteResult,
)

__all__ = [
    "AgentError",
    "AgentInfo",
    "AgentMissingError",
    "AgentUnreachableError",
    "AsyncFiles",
    "AsyncProcess",
    "AsyncSandbox",
    "Capability",
    "Cause",
    "Command",
    "ConnectionLostError",
    "DirectoryNotEmptyError",
    "DiskFullError",
    "ExecConflictError",
    "ExecFailedError",
    "ExecInfo",
    "ExecNotFoundError",
    "ExecResult",
    "FileEntry",
    "FileError",
    "FileFailedError",
    "Files",
    "InternalError",
    "InvalidArgumentError",
    "LaunchFailedError",
    "Limits",
    "NotARegularFileError",
    "Output",
    "PermissionDeniedError",
    "Process",
    "ResourceExhaustedError",
    "Sandbox",
    "SandboxClosedError",
    "SandboxError",
    "SandboxFileExistsError",
    "SandboxFileNotFoundError",
    "SandboxInfo",
    "SandboxIsADirectoryError",
    "SandboxLostError",
    "SandboxNotADirectoryError",
    "SandboxNotFoundError",
    "SocketUntrustedError",
    "Startup",
    "StateUnusableError",
    "UnauthenticatedError",
    "UnknownTemplateError",
    "UnsupportedError",
    "UsedAfterForkError",
    "VersionMismatchError",
    "WriteResult",
    "__version__",
    "agent_info",
    "run_many",
    "run_many_async",
    "sandboxes",
]

# Tracebacks and reprs show the public path, not where the code happens to be.
for _name in __all__:
    _export = globals()[_name]
    if getattr(_export, "__module__", "").startswith("sandboxd."):
        _export.__module__ = __name__
del _name, _export
