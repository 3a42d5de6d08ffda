"""What a benchmark found: the object of `build/bench.json`, and its judgement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.benchmarks.stats import Summary, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.record import Record


TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Bound:
    """What must hold: of the ratio to a reference, or (`reference` empty) of the product itself."""

    reference: str
    limit: float
    text: str
    at_least: bool = False

    def holds(self, value: float) -> bool:
        """Whether the measured value is on the right side of the limit."""
        return value >= self.limit if self.at_least else value <= self.limit


def at_most(reference: str, limit: float) -> Bound:
    """The product takes at most `limit` times what the reference takes."""
    return Bound(reference, limit, f"≤ {limit:g}{TIMES} {reference}")


def at_least(reference: str, limit: float) -> Bound:
    """The product does at least `limit` times what the reference does (a rate)."""
    return Bound(reference, limit, f"≥ {limit:g}{TIMES} {reference}", at_least=True)


def faster(reference: str, times: float) -> Bound:
    """The product takes at most one `times`-th of what the reference takes."""
    return Bound(reference, 1 / times, f"≥ {times:g}{TIMES} faster than {reference}")


def within(limit: float, unit: str) -> Bound:
    """The product's median itself is at most `limit`."""
    return Bound("", limit, f"≤ {limit:g} {unit}")


@dataclass(frozen=True, slots=True)
class Result:
    """One metric of one goal.

    A ratio is the product's median over the reference's, taken in the same interleaved pass.
    """

    id: str
    metric: str
    unit: str
    product: Summary
    references: Mapping[str, Summary] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)
    bounds: Sequence[Bound] = ()
    # References that could not take part, and why.
    missing: Mapping[str, str] = field(default_factory=dict)
    load: float = 0
    note: str = ""
    # The module that measured it. A goal may have several.
    source: str = ""

    def verdict(self, bound: Bound) -> bool | None:
        """Whether a bound holds; None where its reference is missing."""
        value = self.product.p50 if not bound.reference else self.ratios.get(bound.reference)
        return None if value is None else bound.holds(value)

    @property
    def target(self) -> str:
        """The bounds as a sentence; empty when the metric is reported and not gated."""
        return "; ".join(bound.text for bound in self.bounds)

    @property
    def met(self) -> bool | None:
        """Whether every bound that could be judged holds; None when none could."""
        verdicts = [self.verdict(bound) for bound in self.bounds]
        judged = [verdict for verdict in verdicts if verdict is not None]
        return all(judged) if judged else None

    def record(self) -> Record:
        """The object of `build/bench.json`."""
        return {
            "id": self.id,
            "metric": self.metric,
            "unit": self.unit,
            "product": self.product.series(),
            "references": {name: summary.series() for name, summary in self.references.items()},
            "ratios": dict(self.ratios),
            "target": self.target or None,
            "met": self.met,
            "load": self.load,
            "bounds": [
                {"text": bound.text, "reference": bound.reference, "met": self.verdict(bound)}
                for bound in self.bounds
            ],
            "missing": dict(self.missing),
            "note": self.note,
            "source": self.source,
        }


def compare(
    taken: Mapping[str, Summary], product: str
) -> tuple[dict[str, Summary], dict[str, float]]:
    """The references of one interleaved pass, and the product's ratio to each of them."""
    references = {name: summary for name, summary in taken.items() if name != product}
    ratios = {name: taken[product].p50 / summary.p50 for name, summary in references.items()}
    return references, ratios


def compare_pairs(
    passes: Mapping[str, Mapping[str, Sequence[int]]], product: str, per_unit: float
) -> tuple[Summary, dict[str, Summary], dict[str, float]]:
    """As `compare`, of passes with one reference each; the product's samples are put together."""
    references: dict[str, Summary] = {}
    ratios: dict[str, float] = {}
    together: list[int] = []
    for name, taken in passes.items():
        references[name] = summarise(taken[name], per_unit=per_unit)
        ratios[name] = summarise(taken[product], per_unit=per_unit).p50 / references[name].p50
        together += taken[product]
    return summarise(together, per_unit=per_unit), references, ratios
