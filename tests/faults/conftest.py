"""What several tests of this tier start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.faulty_agent import FaultyAgent

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def faulty() -> Iterator[FaultyAgent]:
    """An agent behind a proxy; both are gone afterwards."""
    with FaultyAgent() as made:
        yield made
