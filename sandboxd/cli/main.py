"""Entry point of the command: subcommands, and the last line of defence against tracebacks."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

_NEEDS_EXTRA = "sandboxd: the command line needs its extra: pip install 'sandboxd[cli]'\n"

_SIGNALED = 128
"""A shell adds this to the number of the signal that ended a program."""


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        # Here, not above: without the extra, what is missing must be said in one line.
        from sandboxd.cli.app import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"rich", "typer"}:
            raise
        sys.stderr.write(_NEEDS_EXTRA)
        sys.exit(1)
    from sandboxd import SandboxError  # noqa: PLC0415
    from sandboxd.cli import console, stdout  # noqa: PLC0415

    stdout.watch()
    try:
        app(standalone_mode=True)
    except SandboxError as error:
        with suppress(OSError):
            console.ERR.print(f"sandboxd: {error}", markup=False, soft_wrap=True)
        sys.exit(console.INFRASTRUCTURE)
    except stdout.StdoutError as error:
        stdout.give_up()
        with suppress(OSError):
            console.ERR.print(f"sandboxd: {error}", markup=False, soft_wrap=True)
        sys.exit(console.INFRASTRUCTURE)
    except KeyboardInterrupt:
        # What was open is closed by now: the commands clean up as they unwind.
        sys.exit(_SIGNALED + signal.SIGINT)
