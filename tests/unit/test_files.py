"""A read is bounded by its caller, however long the sandbox makes its files."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from sandboxd import AsyncFiles, Files, InvalidArgumentError, ResourceExhaustedError
from sandboxd.client._files import DEFAULT_MAX_BYTES

if TYPE_CHECKING:
    from sandboxd.client._binding import Binding

GIVE_UP = 1_000


@dataclass
class Endless:
    """A stream that ends after `chunks`, and counts how many were taken."""

    chunk: bytes
    chunks: int
    taken: int = 0
    closed: bool = False

    async def receive(self) -> list[tuple[bytes, None]]:
        assert not self.closed
        if self.taken == self.chunks:
            return []
        self.taken += 1
        return [(self.chunk, None)]

    def close(self) -> None:
        self.closed = True


@dataclass
class Bound:
    """A binding whose only answer is `opened`; it is its own channel and transport."""

    opened: Endless
    sandbox_id: str = "s"
    requests: list[Any] = field(default_factory=list)

    @property
    def channel(self) -> Bound:
        return self

    @property
    def transport(self) -> Bound:
        return self

    async def ready_in_order(self) -> None:
        return

    def stream(self, request: Any) -> Endless:
        self.requests.append(request)
        return self.opened


def files_of(opened: Endless) -> AsyncFiles:
    return AsyncFiles(cast("Binding", Bound(opened)))


@pytest.mark.parametrize("length", [None, GIVE_UP])
def test_more_than_max_bytes_is_refused_as_soon_as_it_is_here(length: int | None) -> None:
    opened = Endless(b"x" * 4, chunks=GIVE_UP)

    with pytest.raises(ResourceExhaustedError) as refused:
        asyncio.run(files_of(opened).read("/etc/long", length=length, max_bytes=10))

    assert (opened.taken, opened.closed) == (3, True)
    for word in ("/etc/long", "max_bytes=10 ", "offset and length", "larger max_bytes"):
        assert word in str(refused.value)
    assert not refused.value.may_have_run


def test_text_has_the_same_bound() -> None:
    opened = Endless(b"x" * 4, chunks=GIVE_UP)

    with pytest.raises(ResourceExhaustedError):
        asyncio.run(files_of(opened).read_text("/long", max_bytes=10))
    assert (opened.taken, opened.closed) == (3, True)


def test_the_blocking_form_has_the_same_bound() -> None:
    opened = Endless(b"x" * 4, chunks=GIVE_UP)

    with pytest.raises(ResourceExhaustedError):
        Files(files_of(opened)).read("/long", max_bytes=10)
    with pytest.raises(ResourceExhaustedError):
        Files(files_of(Endless(b"x" * 4, chunks=GIVE_UP))).read_text("/long", max_bytes=10)


def test_exactly_max_bytes_are_read() -> None:
    opened = Endless(b"x" * 5, chunks=2)

    assert asyncio.run(files_of(opened).read("/f", max_bytes=10)) == b"x" * 10
    assert opened.closed


def test_an_empty_file_fits_into_nothing() -> None:
    assert asyncio.run(files_of(Endless(b"", chunks=0)).read("/f", max_bytes=0)) == b""


def test_without_a_word_the_bound_is_a_gibibyte() -> None:
    # One chunk that is 64 MiB long, many times: what is kept of it are references.
    opened = Endless(bytes(1 << 26), chunks=GIVE_UP)

    with pytest.raises(ResourceExhaustedError, match=f"max_bytes={1 << 30} "):
        asyncio.run(files_of(opened).read("/long"))
    assert opened.taken == DEFAULT_MAX_BYTES // (1 << 26) + 1


@pytest.mark.parametrize("value", [-1, 2**63, 1.5, None, True, "1G"])
def test_a_wrong_bound_is_refused_by_name(value: Any) -> None:
    opened = Endless(b"", chunks=0)
    with pytest.raises(InvalidArgumentError, match="max_bytes"):
        asyncio.run(files_of(opened).read("/f", max_bytes=value))
