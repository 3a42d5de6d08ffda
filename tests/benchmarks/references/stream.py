"""The output of programs, taken by a tiny C process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.references.program import BUILT, ReferenceProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

# The program that both sides run.
SOURCE = BUILT / "source"


class Stream(ReferenceProgram):
    """The raw reference of streams."""

    def __init__(self) -> None:
        super().__init__("stream")

    def splice(self, argv: Sequence[str], *, output: int) -> int:
        """Nanoseconds from the start of a program until all its output is moved to /dev/null.

        Raises:
            RuntimeError: It did not exit with 0, or wrote other than `output` bytes.
        """
        elapsed, written = self._run("splice", argv)
        if written != output:
            raise RuntimeError(f"{argv} wrote {written} bytes instead of {output}")
        return elapsed

    def first(self, argv: Sequence[str]) -> int:
        """Nanoseconds from the start of a program until its first byte is read.

        Raises:
            RuntimeError: It did not exit with 0, or wrote nothing.
        """
        elapsed, written = self._run("first", argv)
        if not written:
            raise RuntimeError(f"{argv} wrote nothing")
        return elapsed

    def _run(self, how: str, argv: Sequence[str]) -> tuple[int, int]:
        elapsed, status, written = self.ask(how, *argv)
        if status:
            raise RuntimeError(f"{list(argv)} ended with wait status {status:#x}")
        return elapsed, written
