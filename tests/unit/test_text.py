"""Text from bytes that come in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandboxd import Output
from sandboxd.client._text import TextDecoder

CJK = ("\u4e2d\u6587\u65e5\u672c\u8a9e\ud55c\uad6d\uc5b4" * 5_000)[:35_000]


def decode(outputs: list[Output]) -> dict[str, str]:
    decoder = TextDecoder()
    pieces = [piece for output in outputs if (piece := decoder.decode(output)) is not None]
    pieces += decoder.finish()
    assert all(piece.text for piece in pieces)
    return {
        stream: "".join(piece.text for piece in pieces if piece.stream == stream)
        for stream in ("stdout", "stderr")
    }


def test_o1_a_hundred_kib_of_cjk_text_cut_at_every_offset_decodes_unchanged() -> None:
    data = CJK.encode()
    assert len(data) > 100 * 1024
    outputs = []
    # Byte by byte, the two streams in turn: every offset is a cut, and in the middle of the other.
    for offset in range(len(data)):
        outputs.append(Output("stdout", data[offset : offset + 1], offset))
        outputs.append(Output("stderr", data[offset : offset + 1], offset))

    assert decode(outputs) == {"stdout": CJK, "stderr": CJK}


def test_o1_one_cut_at_any_offset_changes_nothing() -> None:
    short = CJK[:40]
    data = short.encode()
    for cut in range(1, len(data)):
        outputs = [Output("stdout", data[:cut], 0), Output("stdout", data[cut:], cut)]
        assert decode(outputs)["stdout"] == short


@given(st.binary(max_size=60), st.lists(st.integers(1, 7), max_size=60))
def test_o2_any_bytes_in_any_pieces_are_the_text_that_they_are_in_one(
    data: bytes, lengths: list[int]
) -> None:
    outputs, offset = [], 0
    for length in [*lengths, len(data)]:
        if part := data[offset : offset + length]:
            outputs.append(Output("stdout", part, offset))
        offset += len(part)

    assert decode(outputs)["stdout"] == data.decode("utf-8", "replace")


def test_what_follows_a_gap_does_not_complete_what_is_before_it() -> None:
    outputs = [Output("stdout", b"a\xe4\xb8", 0), Output("stdout", b"\xadb", 90)]

    assert decode(outputs)["stdout"] == "a\ufffd\ufffdb"
