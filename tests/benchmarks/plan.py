"""How much one run measures, and where it may put things."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """Given to every goal."""

    quick: bool
    # A folder of this run, readable by everyone: boxes of other ids have their roots in it.
    work: Path
    # Ended when the goal is done, in reverse order.
    stack: ExitStack

    def size(self, full: int, quick: int) -> int:
        """A number of samples or sandboxes: in full, and in the quick set."""
        return quick if self.quick else full


def load_average() -> float:
    """Processes that wanted a core, averaged over the last minute."""
    return os.getloadavg()[0]
