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


@pytest.mark.timeout(300)
def test_z1_everything_at_once_under_random_faults_is_right_once_and_leaves_nothing() -> None:
    _soak(20, timeout=280)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_z1_ten_minutes_of_random_faults_are_right_once_and_leave_nothing() -> None:
    _soak(600, timeout=1100)


def _soak(seconds: int, timeout: float) -> None:
    seed = seeded(f"{seconds} s of random faults").randrange(1, 1 << 32)
    summary = _run("soak", "--seconds", str(seconds), "--seed", str(seed), timeout=timeout)

    assert summary["details"] == []
    assert set(summary["wrong"].values()) == {0}, summary
    assert summary["failures"] == []
    assert summary["cuts"] >= seconds
    assert sum(summary["done"].values()) >= 10 * seconds


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_z1_a_thousand_commands_under_random_cuts_run_once_and_lose_nothing() -> None:
    summary = _schedules(1000, timeout=3500)

    assert summary["differences"] == []
    assert summary["cuts"] >= 1000
    assert summary["late"] > 50
