"""Sizes as people write them: `64K`, `512M`, `2G`, powers of 1,024."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[KMGT]?)(i?B)?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of a size such as `512M`, `1.5GiB` or `65536`.

    Raises:
        ValueError: If it is no size; the message shows some.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"`{text}` is no size: write 65536, 64K, 512M or 2G")
    return round(float(match["number"]) * _UNITS[match["unit"].upper()])


def format_size(size: float) -> str:
    """The size in the largest unit of which it has one: `512 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:  # noqa: PLR2004  (the step between two units)
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"
