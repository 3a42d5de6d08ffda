"""Exactly once, however the connection behaves: random schedules of cuts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.ordinary import ROOT
from tests.support.seeds import seeded


def _run(module: str, *options: str, timeout: float) -> dict[str, Any]:
    """Run a program of this folder in a process of its own; what it tells at its end."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.faults.{module}", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.stdout, f"it ended with status {done.returncode} and without a word"
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def _schedules(count: int, timeout: float) -> dict[str, Any]:
    seed = seeded(f"{count} schedules").randrange(1, 1 << 32)
    return _run("schedules", "--count", str(count), "--seed", str(seed), timeout=timeout)


@pytest.mark.timeout(300)
def test_z1_commands_under_random_cuts_run_once_and_lose_nothing() -> None:
    summary = _schedules(80, timeout=280)

    assert summary["differences"] == []
    # What was to happen did happen.
    assert summary["cuts"] >= 80
    assert summary["late"] > 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_z1_a_thousand_commands_under_random_cuts_run_once_and_lose_nothing() -> None:
    summary = _schedules(1000, timeout=3500)

    assert summary["differences"] == []
    assert summary["cuts"] >= 1000
    assert summary["late"] > 50
