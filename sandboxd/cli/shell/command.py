"""The options of `sandboxd shell`, and what its exit code says."""

from __future__ import annotations

import asyncio
import os
import secrets
from typing import Annotated

import typer

from sandboxd import AsyncSandbox, ExecResult, SandboxError
from sandboxd.cli import console
from sandboxd.cli.shell import screen
from sandboxd.cli.shell.relay import Leave, relay
from sandboxd.client._join import JoinedSandbox

_SIGNALED = 128
"""A shell adds this to the number of the signal that ended a program."""

_PROGRAM = ["/bin/sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"]


def shell(
    *,
    sandbox_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A sandbox of `sandboxd ls`.")
    ] = None,
    attach: Annotated[
        str | None,
        typer.Option(metavar="EXEC", help="A terminal that was left, instead of a new one."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="NAME, UID or UID:GID in the sandbox.")] = None,
    cwd: Annotated[str | None, typer.Option(help="Working directory in the sandbox.")] = None,
    template: Annotated[str, typer.Option(help="What to start when there is no ID.")] = "host",
) -> None:
    """Open a terminal in a sandbox: in a new one, which ends with it, or in the one with this ID.

    To leave a terminal and let its programs run on, type ~. at the beginning of a line; it tells
    how to come back, and what was written meanwhile is shown then. ~~ is one ~. Only of a sandbox
    with an ID: a new one is gone when its terminal is.

    Sandboxes are found as by `sandboxd ls`; SANDBOXD_SOCKET names one agent.

    Exit code: that of the shell; 128 and the number of the signal that killed it; 0 when it was
    left; 125 if sandboxd failed.

    \b
    sandboxd shell
    sandboxd shell sb-0123456789abcdef-1
    sandboxd shell sb-0123456789abcdef-1 --attach shell-01234567
    """  # noqa: D301  (click: do not wrap)
    if not screen.is_there():
        console.fail("stdin and stdout are no terminal: use `sandboxd run` for scripts")
    if attach is not None and sandbox_id is None:
        console.fail("--attach needs the ID of a sandbox")
    exec_id = f"shell-{secrets.token_hex(4)}" if attach is None else attach
    try:
        # Finding it blocks, and no loop runs yet.
        sandbox = AsyncSandbox(template) if sandbox_id is None else JoinedSandbox(sandbox_id)
        result = asyncio.run(_play(sandbox, exec_id, attach=attach is not None, user=user, cwd=cwd))
    except Leave as leave:
        if sandbox_id is not None:
            console.ERR.print(
                f"left; come back with: sandboxd shell {sandbox_id} --attach {exec_id}",
                markup=False,
                soft_wrap=True,
            )
        raise typer.Exit(0 if leave.number is None else _SIGNALED + leave.number) from None
    except SandboxError as error:
        console.fail(str(error))
    raise typer.Exit(_exit_code(result))


async def _play(
    sandbox: AsyncSandbox, exec_id: str, *, attach: bool, user: str | None, cwd: str | None
) -> ExecResult:
    async with sandbox:
        if attach and isinstance(sandbox, JoinedSandbox):
            process = await sandbox.attach_running(exec_id)
        else:
            process = await sandbox.start(
                _PROGRAM,
                pty=screen.size(),
                env={"TERM": os.environ.get("TERM") or "xterm-256color"},
                user=user,
                cwd=cwd,
                exec_id=exec_id,
            )
        return await relay(process)


def _exit_code(result: ExecResult) -> int:
    if result.exit_code is not None:
        return result.exit_code
    return console.INFRASTRUCTURE if result.signal is None else _SIGNALED + result.signal
