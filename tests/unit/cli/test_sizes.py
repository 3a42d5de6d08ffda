"""Sizes as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd.cli.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65_536),
        ("64K", 65_536),
        ("64k", 65_536),
        ("512M", 512 << 20),
        ("512MiB", 512 << 20),
        ("512MB", 512 << 20),
        ("1.5G", 3 << 29),
        (" 2 G ", 2 << 30),
        ("1T", 1 << 40),
        ("0", 0),
    ],
)
def test_a_size_is_read_in_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1X", "1e9", "nan", "inf", "1 2", "0x10"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="512M"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (512 << 20, "512 MiB"), (3 << 40, "3 TiB")],
)
def test_a_size_is_shown_in_the_largest_unit_it_fills(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_shown_size_is_read_as_nearly_the_same(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=1e-3)
