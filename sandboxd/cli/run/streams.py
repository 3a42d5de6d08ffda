"""Writing to this process's own stdout and stderr, where a failure is not the program's.

Straight to the descriptor: what Python's buffers keep of a failed write would fail again at exit,
and change the exit code.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Callable


class UnwritableError(Exception):
    """Output cannot be shown: the disk behind it is full, it is closed, or the like."""

    def __init__(self, name: str, why: str) -> None:
        """Keep the name of the stream, and the system's words."""
        super().__init__(f"cannot write to {name}: {why}")


def write(name: str, data: bytes) -> None:
    """Write all of `data` to `stdout` or `stderr`.

    Raises:
        BrokenPipeError: If nobody reads it any more.
        UnwritableError: If it cannot be written for another reason.
    """
    stream = getattr(sys, name)
    # Python's word for one that was closed from the start; its number may be something else's now.
    if stream is None:
        raise UnwritableError(name, "it is closed")
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(stream.fileno(), rest) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableError(name, error.strerror or str(error)) from None


def note(show: Callable[[], object]) -> None:
    """Write to stderr what `show` prints, if that is possible.

    If not, the exit code still tells: it is never changed by a note that nobody can read.
    """
    with suppress(BrokenPipeError, UnwritableError):
        write("stderr", rendered(show))


def rendered(show: Callable[[], object]) -> bytes:
    """Return what `show` prints to either stream; nothing is written.

    Not by Rich's own capture: that writes an empty text at its end, which can fail as well.
    """
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text), suppress(typer.Exit):
        show()
    return text.getvalue().encode("utf-8", "backslashreplace")
