"""Every check of `sandboxd.testing` against the agent of this machine."""

from __future__ import annotations

import asyncio

import pytest

from sandboxd.testing import CHECKS, Check, LocalSetup


def _case(check: Check) -> object:
    marks = [pytest.mark.needs(*check.needs), pytest.mark.timeout(check.seconds + 30)]
    return pytest.param(check, id=check.name, marks=marks)


@pytest.mark.parametrize("check", [_case(each) for each in CHECKS])
async def test_local_box(check: Check, setup: LocalSetup) -> None:
    """The promise that gives the case its name."""
    await asyncio.wait_for(check.run(setup), check.seconds)
