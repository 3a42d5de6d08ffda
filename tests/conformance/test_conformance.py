"""Every check of `sandboxd.testing` against each set-up that this run is for.

The agent of this machine, unless `SANDBOXD_TEST_SETUPS` names others as `package.module:name`,
separated by commas. The checks and what they expect are the same for all of them.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from sandboxd.testing import CHECKS, Check, LocalSetup, Setup, load_setup

LOCAL = "local"
GRACE = float(os.environ.get("SANDBOXD_TEST_GRACE", "0.5"))
SETUPS = os.environ.get("SANDBOXD_TEST_SETUPS", LOCAL).split(",")


def _setup(name: str) -> Setup:
    return LocalSetup(grace=GRACE) if name == LOCAL else load_setup(name)


def _case(name: str, check: Check) -> object:
    marks = [pytest.mark.timeout(check.seconds + 30)]
    if name == LOCAL:
        marks.append(pytest.mark.needs(*check.needs))
    return pytest.param(name, check, id=f"{name}-{check.name}", marks=marks)


@pytest.mark.parametrize(
    ("name", "check"), [_case(name, check) for name in SETUPS for check in CHECKS]
)
async def test_a_promise_holds(name: str, check: Check) -> None:
    """The promise that gives the case its name."""
    setup = _setup(name)
    missing = [need for need in check.needs if not setup.has(need)]
    if missing:
        pytest.skip(f"{name} has no {', '.join(missing)}")
    await asyncio.wait_for(check.run(setup), check.seconds)
