"""Measures one goal in this process: `python -m tests.benchmarks.worker GOAL FOLDER [--quick]`.

What it found is in `records.json` of the folder, an empty one that everyone may read; whoever made
it removes it, after the end of this process and with it of the agent.

Each goal has a process of its own: what one imports, starts or leaves on the heap must not slow
the next one down, and only the SDK and its references may share the process of a latency.
"""

from __future__ import annotations

import argparse
import importlib
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tests.benchmarks import record
from tests.benchmarks.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.benchmarks.report import Result

RECORDS = "records.json"

# In the order of measuring. Memory comes before the bursts: the kernel gives each memory cgroup
# room for as many file systems as there ever were at once since the machine's start.
GOALS = {
    "G1": "g1_exec",
    "G2": "g2_noop",
    "G10": "g10_memory",
    "G3": "g3_tail",
    "G4": "g4_throughput",
    "G7": "g7_create",
    "G8": "g8_burst",
    "G11": "g11_idle",
    "G14 files": "g14_files",
    "G14 streams": "g14_streams",
}


def measure(goal: str, work: Path, *, quick: bool) -> list[Result]:
    """Runs a goal's benchmark with an agent of its own."""
    # Before the SDK is imported: the agent must not share its state with another one's.
    os.environ["SANDBOXD_STATE"] = str(work / "state")
    module = importlib.import_module(f"tests.benchmarks.{GOALS[goal]}")
    run = cast("Callable[[Plan], list[Result]]", module.measure)
    with ExitStack() as stack:
        results = run(Plan(quick=quick, work=work, stack=stack))
    return [replace(result, source=GOALS[goal]) for result in results]


def main() -> None:
    """Parses the command line, measures, writes the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("goal", choices=GOALS)
    parser.add_argument("work", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    results = measure(arguments.goal, arguments.work, quick=arguments.quick)
    record.write(arguments.work / RECORDS, [result.record() for result in results])


if __name__ == "__main__":
    main()
