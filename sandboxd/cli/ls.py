"""`sandboxd ls`: the sandboxes of every agent of this user."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sandboxd import sandboxes
from sandboxd.cli import console
from sandboxd.cli.agents import list_agents

if TYPE_CHECKING:
    from sandboxd import SandboxInfo


def ls(
    *,
    by_agent: Annotated[
        bool,
        typer.Option("--agents", help="List agents instead, with what each has done so far."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the sandboxes that exist, of all your processes on this machine.

    Starts nothing. Agents are found by their sockets in the state folder (SANDBOXD_STATE, by
    default /run/sandboxd as root).

    \b
    sandboxd ls
    sandboxd ls --json | jq -r '.[].id'
    sandboxd ls --agents --json | jq '.[].counters.execs_ended'
    """  # noqa: D301  (click: do not wrap)
    if by_agent:
        list_agents(as_json=as_json)
        return
    found = sandboxes()
    if as_json:
        console.OUT.print_json(json.dumps([_as_json(each) for each in found]))
    elif not found:
        console.ERR.print("no sandboxes")
    else:
        console.OUT.print(_table(found, datetime.now(timezone.utc)))


def _table(found: list[SandboxInfo], now: datetime) -> Table:
    # Without lines, so that all of it fits into 80 columns; labels take what is left.
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("id", "template", "state", "age", "ends in", "execs"):
        table.add_column(heading, no_wrap=True)
    table.add_column("labels")
    for each in found:
        table.add_row(
            each.id,
            each.template,
            each.state,
            _span(now - each.created_at),
            _span(each.expires_at - now),
            str(each.running_execs),
            " ".join(f"{name}={value}" for name, value in sorted(each.labels.items())),
        )
    return table


def _span(span: timedelta) -> str:
    """A span of time in the two largest units that say something: `2h 5m`."""
    seconds = max(0, round(span.total_seconds()))
    parts = [(seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    first = next((index for index, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2])


def _as_json(each: SandboxInfo) -> dict[str, Any]:
    return {
        "id": each.id,
        "template": each.template,
        "state": each.state,
        "launch": each.launch,
        "startup": each.startup,
        "created_at": each.created_at.isoformat(),
        "expires_at": each.expires_at.isoformat(),
        "running_execs": each.running_execs,
        "id_range": each.id_range,
        "init_pid": each.init_pid,
        "labels": dict(each.labels),
    }
