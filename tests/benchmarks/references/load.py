"""Programs run by tiny C processes, several at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks.references.program import ReferenceProgram

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Pass:
    """Many runs: nanoseconds of all together, and of each."""

    elapsed: int
    each: Sequence[int]
    # Bytes that the programs wrote, both streams.
    written: int


class Load(ReferenceProgram):
    """The raw reference of whatever runs several commands at once."""

    def __init__(self, mix: Sequence[Sequence[str]]) -> None:
        """Starts it; it runs the commands of the mix over and over."""
        super().__init__("load")
        for argv in mix:
            self.ask("command", *argv)

    def plain(self, count: int, workers: int) -> Pass:
        """`count` runs by `workers` loops of vfork, exec and wait, output to /dev/null.

        Raises:
            RuntimeError: A program did not exit with 0.
        """
        return self._pass("plain", count, workers)

    def piped(self, count: int, workers: int) -> Pass:
        """The same, with both streams of every program read to their end.

        Raises:
            RuntimeError: A program did not exit with 0.
        """
        return self._pass("piped", count, workers)

    def _pass(self, how: str, count: int, workers: int) -> Pass:
        elapsed, failed, written, *each = self.ask(how, count, workers)
        if failed:
            raise RuntimeError(f"{failed} of {count} programs failed")
        return Pass(elapsed, each, written)
