"""The command: gather findings, show them, and say by exit code whether all is well."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from sandboxd import SandboxError
from sandboxd.cli import console
from sandboxd.cli.doctor.boundary import TRIES, cross
from sandboxd.cli.doctor.finding import Finding
from sandboxd.cli.doctor.limits import EXCESSES, exceed
from sandboxd.cli.doctor.machine import look
from sandboxd.cli.doctor.neighbours import meet
from sandboxd.cli.doctor.planted import Planted, environment_marker, planted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence


def doctor(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
) -> None:
    """Check what this machine gives, and prove the boundary by trying to cross it.

    First what the machine offers for isolation, with the remedy for what is missing. Then tries
    from inside real sandboxes: read the machine's files, see its processes, reach its network,
    make forbidden system calls, exceed each limit, meet a neighbour. Takes some seconds.

    Exit code: 0 if everything is there and everything held, else 1. What could not be tried
    counts as not held.

    \b
    sandboxd doctor
    sandboxd doctor --json | jq '.boundary[] | select(.holds != true)'
    """  # noqa: D301  (click: do not wrap)
    # Before the agent starts: what it inherits must not show inside.
    marker = environment_marker()
    machine = look()
    with planted() as outside:
        boundary = asyncio.run(_try_all(outside, marker))
    well = all(finding.holds for finding in (*machine, *boundary))
    if as_json:
        groups = {"machine": machine, "boundary": boundary}
        report = {name: [asdict(each) for each in found] for name, found in groups.items()}
        console.OUT.print_json(json.dumps({"ok": well, **report}))
    else:
        _show("This machine", machine)
        _show("Tries to cross the boundary", boundary)
    raise typer.Exit(0 if well else 1)


async def _try_all(outside: Planted, marker: str) -> list[Finding]:
    """Every try; one that fails does not keep the others from being made."""
    found = [await _tried(each.name, each.tried, cross(each, outside, marker)) for each in TRIES]
    found += [await _tried(each.name, each.tried, exceed(each)) for each in EXCESSES]
    return [*found, await _tried("neighbours", "meet another sandbox", meet())]


async def _tried(name: str, tried: str, attempt: Awaitable[Finding]) -> Finding:
    try:
        return await attempt
    except SandboxError as error:
        return Finding(name, holds=None, tried=tried, saw=str(error))


def _show(title: str, findings: Sequence[Finding]) -> None:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("what was tried, and seen")
    for each in findings:
        remedy = f"remedy: {each.remedy}" if each.remedy and not each.holds else ""
        lines = filter(None, (each.tried, f"→ {each.saw}", remedy))
        colour = "green" if each.holds else "red"
        table.add_row(each.name, f"[{colour}]{each.verdict}[/]", escape("\n".join(lines)))
    console.OUT.print(table)
