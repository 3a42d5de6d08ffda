"""A bar on a terminal, and now and then a line elsewhere."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from sandboxd.cli import console

_LINES = 12
"""Lines of progress in all where there is no terminal: a log wants to be short."""


class Progress:
    """Progress over a known number of steps, on stderr; use it as a context manager."""

    def __init__(self, total: int) -> None:
        """Prepare for `total` steps."""
        self._total = total
        self._done = 0
        self._what = ""
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console.ERR,
            transient=True,
            disable=not console.ERR.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Progress:  # noqa: PYI034  (Self needs Python 3.11)
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar, so that the terminal is as it was."""
        self._bar.stop()

    def describe(self, what: str) -> None:
        """Say what the next steps are."""
        self._what = what
        self._bar.update(self._task, description=what)

    def advance(self) -> None:
        """Count one step."""
        self._done += 1
        self._bar.advance(self._task)
        stride = max(1, self._total // _LINES)
        if self._bar.disable and (self._done % stride == 0 or self._done == self._total):
            console.ERR.print(f"{self._what}: {self._done} of {self._total} done in all")
