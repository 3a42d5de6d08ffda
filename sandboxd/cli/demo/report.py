"""The tables and the JSON at the end of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from sandboxd.cli.demo.scoring import Pass, scored_right

if TYPE_CHECKING:
    from rich.console import Console


_CAPTION = (
    "exec: the canonical programs, from the call to its result. The columns on the right are the "
    "same programs with the same think times, without the broken attempts."
)


@dataclass(frozen=True)
class Outcome:
    """Everything that the demo found out."""

    rollouts: Pass
    """The job itself, broken attempts and all."""
    boxed: Pass
    """The canonical programs alone, in sandboxes."""
    plain: Pass
    """The same programs as plain subprocesses."""
    peak_sandboxes: int
    leaks: dict[str, int]


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The figures for machines; seconds and milliseconds as the names say."""
    job = outcome.rollouts
    return {
        "solved": job.solved,
        "total": len(job.played),
        "causes": job.causes(),
        "wall_seconds": job.wall_seconds,
        "subprocess_wall_seconds": outcome.plain.wall_seconds,
        "exec_ms": {"p50": job.exec_ms(50), "p99": job.exec_ms(99)},
        "startup": {
            "hidden_seconds": job.hidden_seconds,
            "waited_seconds": job.waited_seconds,
            "hidden_ratio": job.hidden_ratio,
        },
        "peak_sandboxes": outcome.peak_sandboxes,
        "leaks": sum(outcome.leaks.values()),
    }


def show(outcome: Outcome, console: Console) -> None:
    """Print the tables for people."""
    console.print(_flaws(outcome.rollouts))
    console.print(_passes(outcome))


def _flaws(job: Pass) -> Table:
    table = Table(title="First attempts that were broken on purpose", title_justify="left")
    table.add_column("broken by")
    table.add_column("must end as")
    table.add_column("scored right", justify="right")
    for flaw, tried in sorted(job.by_flaw().items(), key=lambda item: item[0].name):
        right = sum(map(scored_right, tried))
        table.add_row(flaw.name, flaw.cause.value, f"{right} of {len(tried)}")
    return table


def _passes(outcome: Outcome) -> Table:
    job, boxed, plain = outcome.rollouts, outcome.boxed, outcome.plain
    passes = (job, boxed, plain)
    table = Table(title="HumanEval", title_justify="left", caption=_CAPTION, caption_justify="left")
    table.add_column("")
    table.add_column("rollouts in\nsandboxes", justify="right")
    table.add_column("canonical in\nsandboxes", justify="right")
    table.add_column("canonical as\nsubprocesses", justify="right")

    table.add_row("solved", *(f"{each.solved} of {len(each.played)}" for each in passes))
    table.add_row("attempts", *(str(len(each.tried)) for each in passes))
    table.add_row("wall time", *(f"{each.wall_seconds:.2f} s" for each in passes))
    table.add_row("exec p50", *(f"{each.exec_ms(50):.1f} ms" for each in passes))
    table.add_row("exec p99", *(f"{each.exec_ms(99):.1f} ms" for each in passes))
    table.add_row("start-up hidden", *(f"{each.hidden_seconds:.3f} s" for each in passes[:2]), "")
    table.add_row("start-up waited", *(f"{each.waited_seconds:.3f} s" for each in passes[:2]), "")
    table.add_row("share hidden", *(f"{each.hidden_ratio:.2%}" for each in passes[:2]), "")
    table.add_row("peak sandboxes", str(outcome.peak_sandboxes), "", "")
    table.add_row("left behind", str(sum(outcome.leaks.values())), "", "")
    return table
