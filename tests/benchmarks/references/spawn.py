"""Programs run by a tiny C process: vfork, exec, wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.references.program import ReferenceProgram

if TYPE_CHECKING:
    from collections.abc import Sequence


class Spawn(ReferenceProgram):
    """The raw reference; command-line tools are run by it too, as cheaply as can be."""

    def __init__(self, below: Sequence[str] = ()) -> None:
        super().__init__("spawn", below=below)

    def plain(self, argv: Sequence[str]) -> int:
        """Nanoseconds of one run, output to /dev/null.

        Raises:
            RuntimeError: The program did not exit with 0.
        """
        return self._run("plain", argv)[0]

    def piped(self, argv: Sequence[str], *, output: int) -> int:
        """Nanoseconds of one run, both streams read to their end.

        Raises:
            RuntimeError: It did not exit with 0, or wrote other than `output` bytes.
        """
        elapsed, written = self._run("piped", argv)
        if written != output:
            raise RuntimeError(f"{argv} wrote {written} bytes instead of {output}")
        return elapsed

    def _run(self, how: str, argv: Sequence[str]) -> tuple[int, int]:
        elapsed, status, written = self.ask(how, *argv)
        if status:
            raise RuntimeError(f"{list(argv)} ended with wait status {status:#x}")
        return elapsed, written
