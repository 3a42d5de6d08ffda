"""`sandboxd shell` at a real terminal, as a person would use it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandboxd import Sandbox
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SANDBOXD = Path(sys.executable).with_name("sandboxd")


class Person:
    """Somebody at a terminal of their own, with the command in its foreground."""

    def __init__(self, *arguments: str) -> None:
        self.master, self.terminal = pty.openpty()
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 91, 0, 0))
        self.before = termios.tcgetattr(self.terminal)
        self.seen = b""
        self.process = subprocess.Popen(
            [SANDBOXD, "shell", *arguments],
            stdin=self.terminal,
            stdout=self.terminal,
            stderr=self.terminal,
            env={**os.environ, "TERM": "vt220"},
            start_new_session=True,
        )

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def see(self, wanted: str, *, within: float = 30) -> bytes:
        """Wait until `wanted` is on the screen; what was before it is forgotten."""
        pattern = re.compile(wanted.encode())
        until = time.monotonic() + within
        while (found := pattern.search(self.seen)) is None:
            assert time.monotonic() < until, f"{wanted!r} is not in {self.seen!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 4096)
        self.seen = self.seen[found.end() :]
        return found[0]

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # The test's process is not of the terminal's session.
        self.process.send_signal(signal.SIGWINCH)

    def code(self) -> int:
        """Wait for the end; the terminal is then as it was."""
        until = time.monotonic() + 30
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it does not end: {self.seen!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 4096)
        assert termios.tcgetattr(self.terminal) == self.before
        return self.process.returncode


@contextmanager
def person(*arguments: str) -> Iterator[Person]:
    made = Person(*arguments)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(timeout=30)
        os.close(made.master)
        os.close(made.terminal)


def test_a_person_gets_a_shell_and_its_exit_code() -> None:
    with person() as somebody:
        somebody.type("tty; stty size; echo $TERM:$((6*7))\r")
        somebody.see(r"/dev/pts/0\r\n31 91\r\nvt220:42\r\n")
        somebody.resize(40, 120)
        somebody.type("sleep 0.3; stty size\r")
        somebody.see(r"40 120\r\n")
        somebody.type("sleep 60\r")
        time.sleep(0.5)
        somebody.type("\x03")
        somebody.type("echo still $?\r")
        somebody.see(r"still 130\r\n")
        somebody.type("exit 7\r")
        assert somebody.code() == 7


def test_a_terminal_is_left_and_come_back_to() -> None:
    with Sandbox() as sandbox:
        sandbox.ready()
        with person(sandbox.id) as somebody:
            somebody.type("x=kept; (sleep 1; echo mean''while) & echo be''fore\r")
            somebody.see("before\r\n")
            somebody.type("\r~.")
            hint = somebody.see(rf"sandboxd shell {sandbox.id} --attach shell-[0-9a-f]+").decode()
            assert somebody.code() == 0
        time.sleep(1.2)
        with person(*hint.split()[2:]) as again:
            again.see("before\r\n")
            again.see("meanwhile\r\n")
            again.type("echo $x; exit 3\r")
            again.see("kept\r\n")
            assert again.code() == 3
        assert sandbox.run("true").ok, "the sandbox is not theirs to end"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back_and_ends_the_sandbox(number: signal.Signals) -> None:
    with person() as somebody:
        somebody.type("echo r''eady\r")
        somebody.see("ready\r\n")
        somebody.process.send_signal(number)
        assert somebody.code() == 128 + number
        listed = subprocess.run([SANDBOXD, "ls"], capture_output=True, check=True)
        wait_until(lambda: b"shell" not in listed.stdout)


def test_a_mistake_is_told_and_leaves_the_terminal_alone() -> None:
    with person("no-such-sandbox") as somebody:
        somebody.see("no agent of this user has a sandbox 'no-such-sandbox'")
        assert somebody.code() == 125
    with Sandbox() as sandbox:
        sandbox.ready()
        with person(sandbox.id, "--attach", "nope") as somebody:
            somebody.see("no exec 'nope' runs")
            assert somebody.code() == 125


def test_without_a_terminal_it_says_what_to_use() -> None:
    done = subprocess.run(
        [SANDBOXD, "shell"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 125
    assert b"sandboxd run" in done.stderr
