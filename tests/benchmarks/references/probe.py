"""Boxes made by a C program with nothing but the system calls they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.references.program import ReferenceProgram
from tests.benchmarks.references.root import make_root

if TYPE_CHECKING:
    from pathlib import Path


class Probe(ReferenceProgram):
    """The reference of everything that makes sandboxes."""

    def __init__(self, work: Path) -> None:
        mount_point = work / "probe-mount"
        mount_point.mkdir()
        super().__init__("probe", make_root(work / "probe-root"), mount_point)

    def first(self) -> int:
        """Nanoseconds from nothing to the answer of the first exec in a new box.

        The box is gone, and its init collected, when this returns.
        """
        elapsed, status = self.ask("first")
        if status:
            raise RuntimeError("the first exec of a probe box failed")
        return elapsed

    def hold(self, count: int, *, network: bool = True) -> int:
        """Makes idle boxes and keeps them; returns the pid of the first one's init."""
        made, pid = self.ask("hold", count, int(network))
        if made != count:
            raise RuntimeError(f"the probe made {made} of {count} boxes")
        return pid

    def drop(self) -> None:
        """Ends the boxes that are held."""
        self.ask("drop")

    def burst(self, count: int, workers: int) -> int:
        """Nanoseconds until `count` boxes, all alive, have answered their first exec."""
        elapsed, succeeded = self.ask("burst", count, workers)
        if succeeded != count:
            raise RuntimeError(f"{succeeded} of {count} probe boxes answered")
        return elapsed
