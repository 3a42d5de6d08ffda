"""`sandboxd ls --agents`: every agent of this user, with its totals."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from sandboxd import agents
from sandboxd.cli import console
from sandboxd.cli.sizes import format_size

if TYPE_CHECKING:
    from sandboxd import AgentInfo


def list_agents(*, as_json: bool) -> None:
    """Print one row, or one JSON object, for each agent that answers."""
    found = agents()
    if as_json:
        console.OUT.print_json(json.dumps([_as_json(each) for each in found]))
    elif not found:
        console.ERR.print("no agents")
    else:
        console.OUT.print(_table(found))


def _table(found: list[AgentInfo]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("pid", "version", "sandboxes", "claimed", "lost", "execs", "output", "cpu"):
        table.add_column(heading, no_wrap=True)
    table.add_column("ended")
    for each in found:
        counters = each.counters
        ends = sorted(counters.execs_ended.items())
        table.add_row(
            str(each.pid),
            each.version,
            str(each.sandboxes),
            str(counters.sandboxes_claimed),
            str(counters.sandboxes_lost),
            str(counters.execs_started),
            format_size(counters.output_bytes),
            f"{counters.cpu_time:.3g} s",
            " ".join(f"{cause}={count}" for cause, count in ends),
        )
    return table


def _as_json(each: AgentInfo) -> dict[str, Any]:
    counters = asdict(each.counters)
    return {
        "pid": each.pid,
        "version": each.version,
        "sandboxes": each.sandboxes,
        "templates": list(each.templates),
        "counters": counters,
    }
