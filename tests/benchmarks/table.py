"""Results as a table: for the terminal, and for `docs/specification.md`."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.report import TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.benchmarks.record import Record, Series

SPECIFICATION = Path(__file__).parents[2] / "docs" / "specification.md"
BEGIN = "<!-- measured: begin (written by `make bench`) -->"
END = "<!-- measured: end -->"

_HEADER = ("id", "what", "min", "p50", "p99", "n", "unit", "ratio", "target", "met")
_VERDICTS = {True: "yes", False: "NO", None: ""}


def _number(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _series(series: Series) -> tuple[str, str, str, str]:
    low, middle, high = series["min"], series["p50"], series["p99"]
    return _number(low), _number(middle), _number(high), str(series["n"])


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}{TIMES}"


def _rows(record: Record) -> Iterator[tuple[str, ...]]:
    """The product's row, then one row for each reference."""
    own = [bound for bound in record["bounds"] if not bound["reference"]]
    targets = {bound["reference"]: bound for bound in record["bounds"]}
    product = _series(record["product"])
    yield (
        record["id"],
        record["metric"],
        *product,
        record["unit"],
        "",
        "; ".join(bound["text"] for bound in own),
        "; ".join(_VERDICTS[bound["met"]] for bound in own),
    )
    for name, series in record["references"].items():
        bound = targets.get(name)
        yield (
            "",
            f"· {name}",
            *_series(series),
            record["unit"],
            _ratio(record["ratios"].get(name)),
            bound["text"] if bound else "",
            _VERDICTS[bound["met"]] if bound else "",
        )
    for name, reason in record["missing"].items():
        bound = targets.get(name)
        text = bound["text"] if bound else ""
        yield ("", f"· {name}: missing, {reason}", "", "", "", "", "", "", text, "")


def machine() -> str:
    """The machine and the Python of a run, in one line."""
    return (
        f"{os.cpu_count()} cores, Linux {platform.release().partition('-')[0]}, "
        f"Python {platform.python_version()}"
    )


def _loads(records: Sequence[Record]) -> str:
    loads = [record["load"] for record in records]
    return f"load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""


def for_terminal(records: Sequence[Record]) -> str:
    """Columns aligned by spaces, a blank line between the goals."""
    rows = [_HEADER, *(row for record in records for row in _rows(record))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    # A reason may be long; it alone must not push the numbers off the screen.
    widths[1] = min(widths[1], 58)
    lines = []
    for row in rows:
        if row[0]:
            lines.append("")
        cells = (
            cell.rjust(width) if 2 <= column <= 5 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    notes = [f"{record['id']}: {record['note']}" for record in records if record["note"]]
    return "\n".join([*lines, "", *notes, "", f"{machine()}; {_loads(records)}"])


def for_document(records: Sequence[Record]) -> str:
    """A Markdown table; each id links to its benchmark."""
    lines = [
        f"Measured on {machine()}; {_loads(records)}.",
        "",
        f"| {' | '.join(_HEADER)} |",
        "|---|---|" + "---:|" * 4 + "---|" * 4,
    ]
    for record in records:
        for row in _rows(record):
            identity = f"[{row[0]}]({_link(record)})" if row[0] else ""
            lines.append(f"| {' | '.join((identity, *row[1:]))} |")
    notes = [
        f"- {record['id']}, {record['metric']}: {record['note']}."
        for record in records
        if record["note"]
    ]
    return "\n".join([*lines, "", *notes])


def _link(record: Record) -> str:
    return f"../tests/benchmarks/{record['source']}.py"


def write_document(records: Sequence[Record]) -> None:
    """Replaces what stands between the markers of the specification.

    Raises:
        ValueError: The markers are not there.
    """
    text = SPECIFICATION.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{SPECIFICATION} has no markers {BEGIN} … {END}")
    SPECIFICATION.write_text(f"{before}{BEGIN}\n{for_document(records)}\n{END}{after}")
