"""What is kept of a series of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.benchmarks.record import Series


@dataclass(frozen=True, slots=True)
class Summary:
    """Lowest value, median, 99th percentile and count of a series, in the unit of its result."""

    min: float
    p50: float
    p99: float
    n: int

    def series(self) -> Series:
        """The object that goes into `build/bench.json`."""
        return {"min": self.min, "p50": self.p50, "p99": self.p99, "n": self.n}


def summarise(samples: Iterable[float], *, per_unit: float = 1) -> Summary:
    """Summarises samples, each divided by `per_unit` (1e6 turns nanoseconds into milliseconds).

    The percentiles are values that were measured (nearest rank), never interpolated.

    Raises:
        ValueError: There are no samples.
    """
    ordered = sorted(sample / per_unit for sample in samples)
    if not ordered:
        raise ValueError("no samples")
    count = len(ordered)
    return Summary(
        min=ordered[0],
        p50=ordered[(count - 1) // 2],
        p99=ordered[min(count - 1, count * 99 // 100)],
        n=count,
    )
