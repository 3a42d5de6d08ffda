"""The specification names proofs: they must exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.benchmarks.table import BEGIN, END, SPECIFICATION
from tests.support import cases

_LINKS = re.findall(r"\[([^\]]*)\]\(([^)#]+)\)", SPECIFICATION.read_text())


@pytest.mark.parametrize(("text", "target"), sorted(set(_LINKS)))
def test_a_proof_that_is_named_exists(text: str, target: str) -> None:
    path = (SPECIFICATION.parent / target).resolve()
    assert path.exists()
    if text.startswith("test_"):
        assert f"def {text}(" in path.read_text()


def test_every_case_has_a_test_with_its_id_or_a_reason_to_have_none() -> None:
    assert cases.unproven() == []


def test_the_table_of_cases_is_that_of_the_tests() -> None:
    assert cases.written() == cases.table(), "run `python -m tests.support.cases --write`"


def test_every_benchmark_is_named() -> None:
    benchmarks = (Path(__file__).parents[1] / "benchmarks").glob("g[0-9]*_*.py")
    named = {Path(target).name for _, target in _LINKS}
    assert {benchmark.name for benchmark in benchmarks} <= named


def test_there_is_a_place_for_what_was_measured() -> None:
    text = SPECIFICATION.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)
