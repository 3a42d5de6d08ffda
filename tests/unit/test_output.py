"""What is kept of output that may be endless."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from sandboxd import Output
from sandboxd.client._output import Kept


def keep(limit: int, pieces: list[bytes]) -> Kept:
    kept = Kept(limit)
    offset = 0
    for piece in pieces:
        kept.add(Output("stdout", piece, offset))
        offset += len(piece)
    return kept


@given(st.integers(0, 100), st.lists(st.binary(min_size=1, max_size=40), max_size=20))
def test_the_first_and_the_last_part_are_kept_within_the_limit(
    limit: int, pieces: list[bytes]
) -> None:
    whole = b"".join(pieces)
    kept = keep(limit, pieces)
    value = kept.value()
    if len(whole) <= limit:
        assert value == whole
        assert not kept.truncated
    else:
        head = limit - limit // 2
        assert value == whole[:head] + whole[len(whole) - limit // 2 :]
        assert kept.truncated


@given(st.integers(0, 60), st.lists(st.binary(min_size=1, max_size=40), max_size=20))
def test_o10_what_is_missing_is_counted_and_the_hash_is_of_all(
    limit: int, pieces: list[bytes]
) -> None:
    whole = b"".join(pieces)
    kept = keep(limit, pieces)
    if len(whole) <= limit:
        assert (kept.cut(), kept.hash()) == (None, None)
    else:
        assert kept.cut() == (limit - limit // 2, len(whole) - limit)
        assert kept.hash() == hashlib.sha256(whole).hexdigest()


def test_memory_does_not_grow_with_the_output() -> None:
    kept = keep(1_000, [b"x" * 100] * 10_000)
    assert sum(map(len, kept._tail)) <= 1_000


def test_a_gap_that_the_agent_left_is_reported() -> None:
    kept = Kept(100)
    kept.add(Output("stdout", b"abc", 0))
    kept.add(Output("stdout", b"xyz", 50))
    assert kept.value() == b"abcxyz"
    assert kept.truncated
    assert kept.cut() == (3, 47)
    assert kept.hash() is None


def test_the_hash_of_a_stream_that_was_read_in_part_before_is_not_known() -> None:
    kept = Kept(2, 10)
    kept.add(Output("stdout", b"abcdef", 10))
    assert kept.cut() == (1, 4)
    assert kept.hash() is None
