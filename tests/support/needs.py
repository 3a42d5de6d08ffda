"""What a test cannot do without, and the reason to show where it is missing."""

from __future__ import annotations

import os

import pytest

from sandboxd.testing import LocalSetup
from tests.support import ordinary

REQUIRE = "SANDBOXD_TEST_REQUIRE"


def check(item: pytest.Item) -> None:
    """Skip `item` if one of its needs is missing, or fail it if that need is required."""
    required = set(os.environ.get(REQUIRE, "").split(",")) - {""}
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            reason = _missing(name)
            if reason and name in required:
                pytest.fail(f"{REQUIRE} names {name}: {reason}", pytrace=False)
            if reason:
                pytest.skip(reason)


def _missing(name: str) -> str:
    """Why the machine does not have `name`; empty when it has."""
    if name == "root":
        return "" if os.geteuid() == 0 else "needs root: run the tests as root"
    if name == "ordinary":
        return ordinary.why_impossible()
    return "" if LocalSetup().has(name) else f"the agent has no {name}: see `sandboxd doctor`"
