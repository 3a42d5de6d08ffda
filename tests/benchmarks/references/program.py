"""A reference program that waits for requests between its samples."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self

BUILT = Path(__file__).parents[3] / "build" / "reference"


class ReferenceProgram:
    """One of `tests/benchmarks/reference/*.c`, spoken to in lines of words."""

    def __init__(self, name: str, *arguments: str | Path, below: Sequence[str] = ()) -> None:
        """Starts it; `below` is a command line that runs what follows it."""
        self._name = name
        self._process = subprocess.Popen(
            [*below, BUILT / name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Held boxes must not keep a terminal or the harness's descriptors.
            close_fds=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, *words: str | int) -> list[int]:
        """Sends one request and returns the numbers of its answer.

        Raises:
            RuntimeError: The program ended instead of answering.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"reference {self._name} ended with {self._process.wait()}")
        return [int(number) for number in answer.split()]
