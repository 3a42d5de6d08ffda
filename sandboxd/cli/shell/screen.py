"""This process's own terminal, handed over to a program and taken back on every path."""

from __future__ import annotations

import os
import sys
import termios
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandboxd import Pty

if TYPE_CHECKING:
    from collections.abc import Iterator


def is_there() -> bool:
    """Whether both stdin and stdout are a terminal."""
    streams = (sys.stdin, sys.stdout)
    return all(each is not None and each.isatty() for each in streams)


def size() -> Pty:
    """Return its size; the usual one where it says nothing that can be."""
    try:
        found = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return Pty()
    return Pty(found.lines, found.columns) if found.lines and found.columns else Pty()


@contextmanager
def handed_over() -> Iterator[None]:
    """Pass every key on as it is, and have it as it was afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        # At once: what was typed ahead is for the program, and what is after it for the next one.
        tty.setraw(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def write(data: bytes) -> None:
    """Show all of it.

    Raises:
        OSError: If the terminal is gone.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(sys.stdout.fileno(), rest) :]
