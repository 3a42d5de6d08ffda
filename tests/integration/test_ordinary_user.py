"""The same tests as an ordinary user, who needs nothing but unprivileged user namespaces."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.support import ordinary

SUITES = [
    # Without the test that only waits for seventy seconds: root has waited for both.
    ["tests/conformance", "-k", "not t14"],
    ["tests/integration", "-k", "not ordinary_user"],
    ["tests/security"],
]


@pytest.mark.needs("ordinary")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite[0])
def test_the_tier_holds_for_an_ordinary_user(suite: list[str]) -> None:
    quiet = ["-q", "-p", "no:cacheprovider", "--no-header"]
    with ordinary.state_of() as state:
        temporary = f"--basetemp={state / 'tests'}"
        argv = [sys.executable, "-m", "pytest", *quiet, temporary, *suite]
        done = ordinary.run_as(ordinary.NOBODY, argv, state, timeout=880, TMPDIR=str(state))
        report = done.stdout[-20_000:] + done.stderr[-2_000:]
        assert done.returncode == 0, report
        # What tests wrote into the folders that pytest gave them is theirs, not an agent's.
        shutil.rmtree(state / "tests", ignore_errors=True)
    print(done.stdout[-3_000:])  # noqa: T201  (what was skipped, for those who ask with -s)
