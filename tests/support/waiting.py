"""Wait for a condition instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PERIOD = 0.02
"""Seconds between two looks: far below anything a test waits for, and cheap."""


async def eventually(check: Callable[[], T], *, within: float = 5.0) -> T:
    """Return the first true value of `check`; fail after `within` seconds with the last one."""
    deadline = time.monotonic() + within
    while not (value := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {value!r} after {within} s")
        await asyncio.sleep(PERIOD)
    return value


def wait_until(check: Callable[[], T], *, within: float = 5.0) -> T:
    """`eventually` for code without an event loop."""
    deadline = time.monotonic() + within
    while not (value := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {value!r} after {within} s")
        time.sleep(PERIOD)
    return value
