"""The values of the public API."""

from __future__ import annotations

import ast
import dataclasses
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxd import Cause, ExecResult, Limits, types


def result(**changes: object) -> ExecResult:
    plain = ExecResult(
        exec_id="x",
        cause=Cause.EXITED,
        exit_code=0,
        signal=None,
        stdout_bytes=b"",
        stderr_bytes=b"",
        stdout_total_bytes=0,
        stderr_total_bytes=0,
        truncated=False,
        duration=0.1,
        cpu_time=0.1,
        peak_memory=1,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]  # (any field)


def test_o2_invalid_bytes_are_replaced_in_the_text_and_kept_in_the_bytes() -> None:
    ended = result(stdout_bytes=b"\xff\xfe", exit_code=3)
    assert ended.stdout == "\ufffd\ufffd"
    assert ended.stdout_bytes == b"\xff\xfe"


def test_o10_the_marker_stands_in_the_text_and_characters_at_the_gap_are_left_out() -> None:
    cut = result(stdout_bytes=b"a\xc3" + b"\x82\xacb", _cuts={"stdout": (2, 77)}, truncated=True)
    assert cut.stdout == "a\n[... 77 bytes not kept ...]\nb"
    assert cut.stdout_bytes == b"a\xc3\x82\xacb"
    assert (cut.stdout_head_bytes, cut.stderr_head_bytes) == (2, None)


def test_the_hash_is_computed_of_what_is_whole_and_given_or_unknown_otherwise() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert result().stdout_sha256 == empty
    cut = result(_hashes={"stdout": "abc", "stderr": None})
    assert (cut.stdout_sha256, cut.stderr_sha256) == ("abc", None)


def test_text_is_decoded_once() -> None:
    ended = result(stderr_bytes=b"words")
    assert ended.stderr is ended.stderr


@given(st.text())
def test_text_comes_back_as_it_was(text: str) -> None:
    assert (
        result(stdout_bytes=text.encode("utf-8", "replace")).stdout
        == text.encode("utf-8", "replace").decode()
    )


@pytest.mark.parametrize(
    ("exit_code", "cause", "ok"),
    [
        (0, Cause.EXITED, True),
        (1, Cause.EXITED, False),
        (None, Cause.SIGNALED, False),
        (0, Cause.MEMORY_LIMIT, False),
        (None, Cause.TIMEOUT, False),
    ],
)
def test_only_an_exit_with_zero_and_no_limit_is_ok(
    exit_code: int | None, cause: Cause, *, ok: bool
) -> None:
    assert result(exit_code=exit_code, cause=cause).ok is ok


def test_a_result_can_be_compared_hashed_and_pickled() -> None:
    ended = result(stdout_bytes=b"a")
    assert ended.stdout == "a"
    again = pickle.loads(pickle.dumps(ended))  # noqa: S301  (our own bytes)
    assert again == ended
    assert hash(again) == hash(ended)
    assert again.stdout == "a"


def test_a_result_does_not_show_megabytes() -> None:
    assert len(repr(result(stdout_bytes=b"x" * 1_000_000))) < 1_000


def test_a_cause_is_its_text() -> None:
    assert f"{Cause.TIMEOUT}" == "timeout" == str(Cause.TIMEOUT)
    assert Cause("timeout") is Cause.TIMEOUT
    assert isinstance(Cause.TIMEOUT, str)


def test_values_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().memory = 1  # type: ignore[misc]  # (that is the test)


def test_every_field_and_member_is_documented() -> None:
    tree = ast.parse(Path(types.__file__).read_text())
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for statement, following in zip(owner.body, [*owner.body[1:], None], strict=True):
            if not isinstance(statement, ast.AnnAssign | ast.Assign):
                continue
            target = statement.target if isinstance(statement, ast.AnnAssign) else None
            if isinstance(target, ast.Name) and target.id.startswith("_"):
                continue
            documented = isinstance(following, ast.Expr) and isinstance(
                following.value, ast.Constant
            )
            assert documented, f"{owner.name}: {ast.unparse(statement)}"
