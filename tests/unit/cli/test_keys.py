"""The keys that leave a terminal."""

from __future__ import annotations

import pytest

from sandboxd.cli.shell.keys import LeavingKeys

TYPED = {
    b"~.": (b"", True),
    b"ls\r~.rest": (b"ls\r", True),
    b"ls\n~.": (b"ls\n", True),
    b"a~.": (b"a~.", False),
    b"~~.": (b"~.", False),
    b"~x": (b"~x", False),
    b"~\r~.": (b"~\r", True),
    b"cd ~/x\r": (b"cd ~/x\r", False),
    "é~\r".encode(): ("é~\r".encode(), False),
}


@pytest.mark.parametrize("typed", TYPED)
def test_they_count_at_the_beginning_of_a_line_only(typed: bytes) -> None:
    assert LeavingKeys().take(typed) == TYPED[typed]


@pytest.mark.parametrize("typed", TYPED)
def test_it_does_not_matter_in_which_pieces_they_come(typed: bytes) -> None:
    keys = LeavingKeys()
    passed, left = b"", False
    for key in typed:
        more, left = keys.take(bytes([key]))
        passed += more
        if left:
            break
    assert (passed, left) == TYPED[typed]
