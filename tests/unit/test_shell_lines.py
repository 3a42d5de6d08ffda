"""What a shell is told, tried on the shells of this machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from sandboxd.client._shell_lines import (
    START,
    Answer,
    command,
    find_answer,
    fresh_word,
    greeting,
    move_stdin,
)
from tests.support.seeds import seeded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES = {
    "": (0, b""),
    "echo \"it's\" 'quoted'": (0, b"it's quoted\n"),
    "printf '%s\\n' \"$-\" | wc -l; # a comment": (0, b"1\n"),
    "cat <<'X'\n$HOME `x`\nX": (0, b"$HOME `x`\n"),
    "(exit 255)": (255, b""),
    "echo a \\": (0, b"a\n"),
    "echo $(echo $((6 * 7)))": (0, b"42\n"),
    "exec 3>&2 2>/dev/null; sh -c 'kill -9 $$'": (137, b""),
}


NONSENSE = "'\"\\`$(){}[]|&;<>!#~*? \n\ta1"


class Shell:
    """A shell as init starts it: the socket is its stderr."""

    def __init__(self, name: str, folder: Path) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(10)
        (folder / "empty").mkdir()
        self.output = folder / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", START],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=theirs.fileno(),
                cwd=folder / "empty",
                env={"PATH": str(folder)},
            )
        theirs.close()
        self.last = Answer(0, "")
        answer = self._ask(greeting(word := fresh_word()), word)
        self.bash = answer.flags == "bash"
        assert self.bash == (name == "bash")
        if self.bash:
            self.socket.sendall(move_stdin())

    def run(self, line: str) -> int:
        word = fresh_word()
        self.last = self._ask(command(line.encode(), word, self.last, bash=self.bash), word)
        return self.last.status

    def end(self) -> bytes:
        self.socket.close()
        self.process.wait(timeout=10)
        return self.output.read_bytes()

    def _ask(self, message: bytes, word: str) -> Answer:
        self.socket.sendall(message)
        said = b""
        while (answer := find_answer(said, word)) is None:
            # Also at its end by reset, when it has not read all that it was told.
            more = self.socket.recv(4096)
            assert more, f"the shell is gone: {said!r}"
            said += more
        return answer


@pytest.fixture(params=["bash", "dash"])
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """One of the shells; of the second, no bash is to be found."""
    name = request.param
    if shutil.which(name) is None:
        pytest.skip(f"this machine has no {name}")
    folder = tmp_path_factory.mktemp("bin")
    names = [name, "cat", "wc", "sh"]
    for each in names:
        target = shutil.which(name if each == "sh" else each)
        assert target is not None
        (folder / each).symlink_to(target)
    made = Shell(name, folder)
    yield made
    made.end()


def test_each_line_has_its_status_and_its_output(shell: Shell) -> None:
    for line, (status, _) in LINES.items():
        assert shell.run(line) == status, line
    assert shell.end() == b"".join(output for _, output in LINES.values())


def test_state_stays_and_the_last_status_too(shell: Shell) -> None:
    assert shell.run("x=1; cd /usr; f() { return 6; }") == 0
    assert shell.run("f") == 6
    assert shell.run("echo $? $x $PWD") == 0
    assert shell.end() == b"6 1 /usr\n"


def test_mistakes_leave_the_shell_alive(shell: Shell) -> None:
    for line in ("if", "(", "'", "echo $(})", "x=$(", "echo \\", ". /nope", "cat <<X\n"):
        shell.run(line)
    for line in ("break", "continue", "exec </dev/null"):
        assert shell.run(line) == 0
    assert shell.run("echo alive") == 0
    assert shell.end().endswith(b"alive\n")


def test_no_nonsense_reaches_beyond_its_line(shell: Shell) -> None:
    """Quotes, brackets and operators in any order: parsers keep state where nobody expects it."""
    random = seeded("lines of nonsense")
    for _ in range(300):
        nonsense = "".join(random.choices(NONSENSE, k=random.randint(1, 12)))
        shell.run(nonsense)
        assert shell.run("(exit 42)") == 42, nonsense


def test_what_shows_commands_shows_the_callers_alone(shell: Shell) -> None:
    shell.run("set -x")
    shell.run("echo one")
    shell.run("set +x")
    assert b"printf" not in (output := shell.end())
    assert output.count(b"echo one") == 1
