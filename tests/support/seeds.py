"""Chance that can be repeated: every random test prints its seed and takes it back."""

from __future__ import annotations

import os
import random

VARIABLE = "SANDBOXD_TEST_SEED"


def seeded(test: str) -> random.Random:
    """A source of chance for `test`; its seed is printed, so pytest shows it on a failure."""
    seed = int(os.environ.get(VARIABLE, "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"{test}: repeat with {VARIABLE}={seed}")  # noqa: T201  (pytest shows it on failure)
    return random.Random(seed)
