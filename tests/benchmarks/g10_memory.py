"""G10: what an idle sandbox costs in memory, kernel included."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks.holder import Holder
from tests.benchmarks.plan import load_average
from tests.benchmarks.processes import agent_below, descendants, inits_below, proportional_kb
from tests.benchmarks.references.probe import Probe
from tests.benchmarks.report import Result, within
from tests.benchmarks.stats import Summary, summarise
from tests.benchmarks.system_memory import growth, used_kb

if TYPE_CHECKING:
    from tests.benchmarks.plan import Plan

_METHOD = (
    "growth of the machine's used memory (page cache left out) from before the agent starts to "
    "{count} idle sandboxes, less the growth of the Python process, per sandbox"
)


class _Readings:
    """KiB per sandbox of each round."""

    def __init__(self) -> None:
        self.product: list[float] = []
        self.inits: list[float] = []
        self.agent: list[float] = []
        self.probe: list[float] = []
        self.probe_alone: list[float] = []
        self.kinds: list[dict[str, float]] = []

    def take_product(self, count: int) -> None:
        with Holder() as holder:
            before = used_kb()
            python = holder.hold(count)
            grown = growth(before, used_kb())
            agent = agent_below(holder.pid)
            inits = inits_below(agent)
            if len(inits) != count:
                raise RuntimeError(f"{len(inits)} inits for {count} sandboxes")
            others = [pid for pid in descendants(agent) if pid not in inits]
            self.product.append((grown["all"] - python) / count)
            self.inits.append(sum(map(proportional_kb, inits)) / count)
            self.agent.append(sum(map(proportional_kb, [agent, *others])) / count)
        grown["anonymous"] -= python
        self.kinds.append({kind: kib / count for kind, kib in grown.items()})

    def take_probe(self, probe: Probe, count: int) -> None:
        for network, readings in ((True, self.probe), (False, self.probe_alone)):
            before = used_kb()
            probe.hold(count, network=network)
            readings.append(growth(before, used_kb())["all"] / count)
            probe.drop()

    def kinds_in_words(self) -> str:
        names = [name for name in self.kinds[0] if name != "all"]
        parts = {name: median(kinds[name] for kinds in self.kinds) for name in names}
        return ", ".join(f"{name} {kib:.0f}" for name, kib in parts.items())


def measure(plan: Plan) -> list[Result]:
    """Rounds of the product and the probe in turn, each from an empty machine."""
    count = plan.size(200, 100)
    readings = _Readings()
    probe = plan.stack.enter_context(Probe(plan.work))
    load = load_average()
    for _ in range(plan.size(5, 3)):
        readings.take_product(count)
        readings.take_probe(probe, count)
    product = summarise(readings.product)
    references = {
        "probe": summarise(readings.probe),
        "probe without a network namespace": summarise(readings.probe_alone),
    }
    return [
        Result(
            id="G10",
            metric="memory of an idle sandbox with a network namespace, all in",
            unit="KiB",
            product=product,
            references=references,
            ratios={name: product.p50 / summary.p50 for name, summary in references.items()},
            bounds=(within(500, "KiB"),),
            load=load,
            note=f"{_METHOD.format(count=count)}; by kind: {readings.kinds_in_words()}",
        ),
        _part("of which init (PSS)", summarise(readings.inits), load),
        _part(f"of which a {count}th of agent and launcher (PSS)", summarise(readings.agent), load),
    ]


def _part(metric: str, product: Summary, load: float) -> Result:
    return Result(id="G10", metric=metric, unit="KiB", product=product, load=load)
