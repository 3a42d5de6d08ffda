"""Why a program ended, as a sentence, when the program alone does not tell. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd import Cause, ExecResult
from sandboxd.cli.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Callable


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _processes(value: float) -> str:
    return f"{value:g} processes"


_UNITS: dict[Cause, Callable[[float], str]] = {
    Cause.TIMEOUT: _seconds,
    Cause.IDLE_OUTPUT_TIMEOUT: _seconds,
    Cause.CPU_LIMIT: _seconds,
    Cause.MEMORY_LIMIT: format_size,
    Cause.PIDS_LIMIT: _processes,
    Cause.DISK_LIMIT: format_size,
    Cause.OUTPUT_LIMIT: format_size,
}


def reason(result: ExecResult) -> str | None:
    """Name the limit that was met, with its value and the peak; `None` if none was."""
    unit = _UNITS.get(result.cause)
    if unit is None:
        return None
    words = [result.cause.value]
    if result.limit is not None:
        words.append(f"limit {unit(result.limit)}")
    if result.limit_peak is not None:
        words.append(f"peak {unit(result.limit_peak)}")
    return words[0] + (f" ({', '.join(words[1:])})" if words[1:] else "")
