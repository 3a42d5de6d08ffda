"""Async is written once: each blocking form has the signature and the words of its async twin."""

from __future__ import annotations

import inspect
import re

import pytest

from sandboxd import (
    ArchiveStream,
    AsyncArchiveStream,
    AsyncFiles,
    AsyncFileStream,
    AsyncFileWatch,
    AsyncProcess,
    AsyncSandbox,
    AsyncShell,
    Files,
    FileStream,
    FileWatch,
    Process,
    Sandbox,
    Shell,
)

TWINS = {
    AsyncArchiveStream: ArchiveStream,
    AsyncFileStream: FileStream,
    AsyncFileWatch: FileWatch,
    AsyncFiles: Files,
    AsyncProcess: Process,
    AsyncSandbox: Sandbox,
    AsyncShell: Shell,
}

AT_ONCE = {"shell"}
"""Methods that send nothing, and so are the same in both forms."""

SPECIAL = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}


def _public(owner: type) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(owner).items()
        if not name.startswith("_") or name in {*SPECIAL, *SPECIAL.values()}
    }


@pytest.mark.parametrize("twin", TWINS)
def test_both_have_the_same_members(twin: type) -> None:
    expected = {SPECIAL.get(name, name) for name in _public(twin)}
    assert set(_public(TWINS[twin])) == expected


@pytest.mark.parametrize("twin", TWINS)
def test_both_have_the_same_signatures_and_docstrings(twin: type) -> None:
    for name, member in _public(twin).items():
        if name in SPECIAL:
            continue
        other = inspect.getattr_static(TWINS[twin], name)
        assert inspect.getdoc(other) == inspect.getdoc(member), name
        if isinstance(member, property):
            continue
        assert callable(member)
        assert _signature(other) == _signature(member), name
        waits = inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
        assert waits == (name not in AT_ONCE), name
        assert not inspect.iscoroutinefunction(other), name
        assert not inspect.isasyncgenfunction(other), name


def test_both_are_made_the_same_way() -> None:
    assert inspect.signature(Sandbox) == inspect.signature(AsyncSandbox)


def _signature(function: object) -> str:
    """Return a signature as text, where a blocking form returns blocking forms."""
    text = str(inspect.signature(function))  # type: ignore[arg-type]  # (a method)
    return re.sub(r"(-> '?)Async", r"\1", text)
