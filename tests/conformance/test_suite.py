"""The suite itself: what users get when they run it."""

from __future__ import annotations

import re

import pytest

from sandboxd.testing import CHECKS, LocalSetup, load_setup
from sandboxd.testing.check import CheckFailedError, expect, expect_equal, expect_raises

OWN = LocalSetup("host-hardened")


def test_every_check_has_a_name_and_says_why_it_matters() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    for check in CHECKS:
        assert re.match(r"[a-z]\d*_[a-z0-9_]+$", check.name), check.name
        assert (check.run.__doc__ or "").strip(), check.name


def test_a_set_up_of_ones_own_is_found_by_its_name() -> None:
    made = load_setup("sandboxd.testing:LocalSetup")
    assert isinstance(made, LocalSetup)
    assert load_setup(f"{__name__}:OWN") is OWN
    for name, error in (
        ("sandboxd.testing", ValueError),
        ("no_such_module:x", ImportError),
        ("sandboxd.testing:nothing", AttributeError),
    ):
        with pytest.raises(error):
            load_setup(name)


async def test_a_promise_that_does_not_hold_is_a_failure_that_shows_both_sides() -> None:
    async def returns() -> int:
        return 7

    with pytest.raises(CheckFailedError, match="the code is 1, promised is 0"):
        expect_equal("the code", 1, 0)
    with pytest.raises(CheckFailedError, match="it is off"):
        expect(False, "it is off")  # noqa: FBT003  (as a check does)
    with pytest.raises(CheckFailedError, match="KeyError is promised, the call returned 7"):
        await expect_raises(KeyError, returns())
