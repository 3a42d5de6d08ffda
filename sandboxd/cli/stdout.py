"""A stdout that says so when it cannot be written to, whoever writes: tables, help, JSON."""

from __future__ import annotations

import io
import os
import sys


class StdoutError(Exception):
    """Stdout takes nothing: the disk behind it is full, or the like."""


class _Watched(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StdoutError(f"cannot write to stdout: {error.strerror}") from error

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StdoutError(f"cannot write to stdout: {error.strerror}") from error


def watch() -> None:
    """Tell a failure to write to stdout from all other failures; one that is closed stays closed.

    A reader that went away is none: that has an exit code of its own.
    """
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, _Watched):
        stream.flush()
        sys.stdout = _Watched(
            stream.buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )


def give_up() -> None:
    """Send nowhere what is still on its way to stdout.

    Python would try to write it again at its end, with a message and an exit code of its own.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
