"""The command before any subcommand."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
