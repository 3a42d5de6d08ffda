"""An agent of another version: greets like one of ours and does nothing else.

Run as a program in place of `sandboxd-agent`, with its arguments.
"""

from __future__ import annotations

import shlex
import socket
import struct
import sys
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
    number = int(arguments[arguments.index("--listen-fd") + 1])
    listener = socket.socket(fileno=number)
    while True:
        connection, _ = listener.accept()
        connection.recv(4096)
        connection.sendall(welcome())
        # Until the client leaves; then the next one.
        while connection.recv(4096):
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
