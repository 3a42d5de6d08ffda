"""Where the command line writes: tables to stdout, everything else to stderr.

Colours only on a terminal, and never as the only carrier of a meaning. Rich decides by stream, and
obeys NO_COLOR.
"""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)

INFRASTRUCTURE = 125
"""Exit code when sandboxd itself failed, as of `timeout` and `docker run`; no program's own."""


def warn(message: str) -> None:
    """Say something that does not stop the command."""
    ERR.print(f"[yellow]sandboxd:[/] {escape(message)}", soft_wrap=True)


def fail(message: str, *, code: int = INFRASTRUCTURE) -> NoReturn:
    """Say what went wrong and what to change, and end the command with `code`."""
    ERR.print(f"[red]sandboxd:[/] {escape(message)}", soft_wrap=True)
    raise typer.Exit(code)
