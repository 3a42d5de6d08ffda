"""A failure of our own streams is told apart from the program's, and changes no exit code later."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
import typer

from sandboxd import Output
from sandboxd.cli import console
from sandboxd.cli.run import command, relay, streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandboxd import AsyncProcess, ExecResult
    from sandboxd.cli.run.relay import Order

FULL = Path("/dev/full")


def test_bytes_pass_exactly_and_in_full(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    data = bytes(range(256)) * 100
    streams.write("stdout", data)
    streams.write("stderr", b"err")
    assert capfdbinary.readouterr() == (data, b"err")


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_full_disk_is_named_with_the_stream(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, name, full)
        with pytest.raises(streams.UnwritableError, match=f"{name}: No space left"):
            streams.write(name, b"x")


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_closed_stream_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, name, None)
    with pytest.raises(streams.UnwritableError, match=f"{name}: it is closed"):
        streams.write(name, b"x")


def test_a_reader_that_went_away_is_no_failure_of_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        with pytest.raises(BrokenPipeError):
            streams.write("stdout", b"x")


def test_a_note_that_cannot_be_written_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        streams.note(lambda: console.warn("lost"))
    monkeypatch.setattr(sys, "stderr", None)
    streams.note(lambda: console.fail("lost"))


def test_nothing_is_written_to_tell_what_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with FULL.open("wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full, write_through=True))
        assert streams.rendered(lambda: console.OUT.print_json('{"a": "é"}')).split() == [
            b"{",
            b'"a":',
            '"é"'.encode(),
            b"}",
        ]


def test_a_note_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    streams.note(lambda: console.fail("[no] markup, " + "long " * 50))
    assert capfd.readouterr().err.splitlines() == ["sandboxd: [no] markup, " + "long " * 50]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (streams.UnwritableError("stdout", "No space left on device"), 125),
        (BrokenPipeError(), 141),
    ],
)
def test_run_exits_with_a_code_that_is_not_the_programs(
    error: Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def failing(order: Order, *, show: bool) -> ExecResult:
        assert order.argv == ["true"]
        assert show
        raise error

    monkeypatch.setattr(command, "relay", failing)
    with pytest.raises(typer.Exit) as exited:
        command.run(command=["true"])

    assert exited.value.exit_code == code
    expected = "sandboxd: cannot write to stdout: No space left on device\n"
    assert capfd.readouterr() == ("", expected if code == console.INFRASTRUCTURE else "")


class Playback:
    """A process whose output is here already."""

    def __init__(self, *chunks: Output) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[Output]:
        for chunk in self._chunks:
            yield chunk


def test_output_that_cannot_be_shown_ends_the_showing(monkeypatch: pytest.MonkeyPatch) -> None:
    played = cast("AsyncProcess", Playback(Output("stdout", b"x", 0)))
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(streams.UnwritableError):
            asyncio.run(relay._show(played))


def test_a_stdin_that_was_closed_from_the_start_is_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert relay._next_chunk() == b""


def test_a_stdin_that_cannot_be_read_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open("w") as unreadable:
        monkeypatch.setattr(sys, "stdin", unreadable)
        assert isinstance(relay._next_chunk(), OSError)
