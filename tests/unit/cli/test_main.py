"""The command before any subcommand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandboxd import __version__

_WITHOUT = """
import sys
sys.modules[{name!r}] = None
from sandboxd.cli import main
main()
"""


@pytest.mark.parametrize("name", ["rich", "typer"])
def test_a_missing_extra_is_named_in_one_line(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "sandboxd: the command line needs its extra: pip install 'sandboxd[cli]'"
    ]


@pytest.mark.parametrize("command", ["run", "ls", "doctor", "demo"])
def test_help_teaches_with_an_example_of_the_command(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sandboxd.cli", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )

    examples = [line.strip() for line in done.stdout.splitlines()]
    assert any(line.startswith(f"sandboxd {command}") for line in examples)


def test_the_release_is_that_of_the_package() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sandboxd.cli", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == f"sandboxd {__version__}\n"


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"]])
def test_a_stdout_that_takes_nothing_is_named_in_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sandboxd.cli", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 125
    assert done.stderr == "sandboxd: cannot write to stdout: No space left on device\n"
