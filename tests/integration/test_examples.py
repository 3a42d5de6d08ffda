"""The programs in the documents that people copy first work as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n(?P<program>.*?)^```$", re.MULTILINE | re.DOTALL)

PROGRAMS = [
    pytest.param(
        match["program"],
        id=f"{name}-{index}",
        marks=pytest.mark.needs(*(["limit.memory"] if "Limits(" in match["program"] else [])),
    )
    for name in ("README.md", "docs/getting-started.md", "docs/sdk.md")
    for index, match in enumerate(_BLOCK.finditer((ROOT / name).read_text(encoding="utf-8")))
    # Others are pieces of one.
    if name != "docs/sdk.md" or match["program"].startswith("from sandboxd")
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_runs_as_it_stands(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=55, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
