"""G10: what an idle sandbox costs in memory, kernel included."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks.holder import Holder
from tests.benchmarks.plan import load_average
from tests.benchmarks.processes import agent_below, descendants, inits_below, proportional_kb
from tests.benchmarks.references.probe import Probe
from tests.benchmarks.report import Result, within
from tests.benchmarks.stats import summarise
from tests.benchmarks.system_memory import growth, kernel_kb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.plan import Plan


@dataclass(frozen=True, slots=True)
class _Reading:
    """KiB per sandbox, in one round."""

    kernel: dict[str, float]
    inits: float
    # Agent and launcher, whole, divided by the number of sandboxes.
    agent: float

    @property
    def total(self) -> float:
        return sum(self.kernel.values()) + self.inits + self.agent


def _proportional(pids: Sequence[int], count: int) -> float:
    return sum(map(proportional_kb, pids)) / count


def _read_product(count: int) -> _Reading:
    """From before the agent starts to `count` idle sandboxes."""
    with Holder() as holder:
        before = kernel_kb()
        holder.hold(count)
        grown = growth(before, kernel_kb())
        agent = agent_below(holder.pid)
        inits = inits_below(agent)
        if len(inits) != count:
            raise RuntimeError(f"{len(inits)} inits for {count} sandboxes")
        others = [pid for pid in descendants(agent) if pid not in inits]
        return _Reading(
            kernel={kind: kib / count for kind, kib in grown.items()},
            inits=_proportional(inits, count),
            agent=_proportional([agent, *others], count),
        )


def _read_probe(probe: Probe, count: int, *, network: bool) -> _Reading:
    before = kernel_kb()
    probe.hold(count, network=network)
    grown = growth(before, kernel_kb())
    inits = _proportional(inits_below(probe.pid), count)
    probe.drop()
    return _Reading({kind: kib / count for kind, kib in grown.items()}, inits, agent=0)


def measure(plan: Plan) -> list[Result]:
    """Rounds of the product and the probe in turn, each from an empty machine."""
    count = plan.size(200, 100)
    product: list[_Reading] = []
    with_network: list[_Reading] = []
    without: list[_Reading] = []
    load = load_average()
    with Probe(plan.work) as probe:
        for _ in range(plan.size(7, 3)):
            product.append(_read_product(count))
            with_network.append(_read_probe(probe, count, network=True))
            without.append(_read_probe(probe, count, network=False))
    references = {
        "probe": summarise(reading.total for reading in with_network),
        "probe without a network namespace": summarise(reading.total for reading in without),
    }
    whole = summarise(reading.total for reading in product)
    parts = {
        "kernel": summarise(sum(reading.kernel.values()) for reading in product),
        "init, PSS": summarise(reading.inits for reading in product),
        f"a {count}th of agent and launcher, PSS": summarise(reading.agent for reading in product),
    }
    return [
        Result(
            id="G10",
            metric="memory of an idle sandbox with a network namespace, all in",
            unit="KiB",
            product=whole,
            references=references,
            ratios={name: whole.p50 / summary.p50 for name, summary in references.items()},
            bounds=(within(500, "KiB"),),
            load=load,
            note=(
                f"growth of the kernel's memory on the whole machine over {count} sandboxes, from "
                "before the agent starts, and the proportional memory of all its processes; "
                f"kernel by kind: {_in_words(product)}; the probe's: {_in_words(with_network)}"
            ),
        ),
        *(
            Result(id="G10", metric=f"of which {name}", unit="KiB", product=part, load=load)
            for name, part in parts.items()
        ),
    ]


def _in_words(readings: Sequence[_Reading]) -> str:
    """The median of each kind of kernel memory."""
    kinds = readings[0].kernel
    medians = {kind: median(reading.kernel[kind] for reading in readings) for kind in kinds}
    return ", ".join(f"{kind} {kib:.0f}" for kind, kib in medians.items())
