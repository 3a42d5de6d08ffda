"""An agent of another version: greets like one of ours and does nothing else.

Run as a program in place of `sandboxd-agent`, with its arguments.
"""

from __future__ import annotations

import os
import shlex
import socket
import struct
import sys
import threading
from pathlib import Path

VERSION = "9.9.9"
HELLO = 0


def install(folder: Path) -> Path:
    """Write an executable of this agent into `folder` and return its path."""
    program = folder / "sandboxd-agent"
    command = shlex.join([sys.executable, str(Path(__file__).resolve())])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return program


def welcome() -> bytes:
    """The frame that answers `Hello`: `Welcome{agent_version: VERSION}`."""
    message = b"\x0a" + bytes([len(VERSION)]) + VERSION.encode()
    return struct.pack("<IIB", 5 + len(message), 0, HELLO) + message


def main(arguments: list[str]) -> None:
    """Serve connections until the one who started this is gone."""
    if arguments == ["version"]:
        print(f"sandboxd-agent {VERSION}")  # noqa: T201  (what the command is for)
        return
    numbers = [
        int(arguments[arguments.index(name) + 1]) for name in ("--listen-fd", "--lifeline-fd")
    ]
    listener = socket.socket(fileno=numbers[0])
    threading.Thread(target=_serve, args=(listener,), daemon=True).start()
    # Nobody writes to the lifeline: it ends with the one who holds its other end.
    os.read(numbers[1], 1)


def _serve(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_greet, args=(connection,), daemon=True).start()


def _greet(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(welcome())
    # Until the client leaves.
    while connection.recv(4096):
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
