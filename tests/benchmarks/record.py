"""The shape of `build/bench.json`: a list of these, one for each metric."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypedDict, cast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Series(TypedDict):
    """Samples of one contestant, in the unit of the metric."""

    min: float
    p50: float
    p99: float
    n: int


class Judgement(TypedDict):
    """One bound, and whether it holds; None where its reference is missing."""

    text: str
    reference: str
    met: bool | None


class Record(TypedDict):
    """One metric. `ratios` are the product's median over the reference's."""

    id: str
    metric: str
    unit: str
    product: Series
    references: dict[str, Series]
    ratios: dict[str, float]
    target: str | None
    met: bool | None
    load: float
    bounds: list[Judgement]
    missing: dict[str, str]
    note: str
    source: str


def read(path: Path) -> list[Record]:
    """The records of a file, without those of an older shape; none where there is no file."""
    records = json.loads(path.read_text()) if path.exists() else []
    return [cast("Record", record) for record in records if "source" in record]


def write(path: Path, records: Sequence[Record]) -> None:
    """Writes a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")


def merge(known: Sequence[Record], new: Sequence[Record]) -> list[Record]:
    """`new`, and of `known` what other benchmarks measured; in the order of the goals."""
    measured = {_key(record) for record in new}
    kept = [record for record in known if _key(record) not in measured]
    return sorted([*kept, *new], key=_key)


def _key(record: Record) -> tuple[int, str]:
    """What a benchmark measures together: a goal, or a part of one."""
    return int(record["id"].removeprefix("G")), record["source"]
