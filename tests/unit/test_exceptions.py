"""The tree of exceptions, and that it says the same as the extension and the wire."""

from __future__ import annotations

import builtins
import pickle
import re

import pytest

from sandboxd import _native, exceptions
from sandboxd.exceptions import (
    ExecFailedError,
    InvalidArgumentError,
    SandboxError,
    SandboxLostError,
    from_native,
)

LEAVES = sorted(exceptions._LEAVES, key=lambda leaf: leaf.code)


def test_every_rust_code_has_a_public_exception() -> None:
    assert set(_native.ERROR_CODES) == set(exceptions._BY_CODE)


def test_codes_are_unique() -> None:
    assert len(exceptions._BY_CODE) == len(exceptions._LEAVES)


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_class_is_named_after_its_code(leaf: type[SandboxError]) -> None:
    name = "".join(part.title() for part in leaf.code.split("_"))
    name = name.removesuffix("Error") + "Error"
    # A builtin of the same name would be shadowed by `from sandboxd import …`.
    expected = {name, f"Sandbox{name}"}
    assert leaf.__name__.lower() in {each.lower() for each in expected}
    assert not hasattr(builtins, leaf.__name__)


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_exception_is_in_the_tree_of_the_docstring(leaf: type[SandboxError]) -> None:
    documented = re.findall(r"^( *)\* (\w+)", exceptions.__doc__ or "", re.MULTILINE)
    depth = {name: len(indent) // 2 for indent, name in documented}
    parent = next(base for base in leaf.__mro__[1:] if issubclass(base, SandboxError))
    assert depth[leaf.__name__] == depth[parent.__name__] + 1


def test_an_error_of_the_extension_becomes_its_public_class() -> None:
    may_have_run = True
    native = _native.NativeError("sandbox_lost", "it is gone", may_have_run, "agent_died")
    error = from_native(native)
    assert type(error) is SandboxLostError
    assert (str(error), error.may_have_run, error.reason) == ("it is gone", True, "agent_died")


def test_a_code_of_a_newer_agent_becomes_the_base_class() -> None:
    may_have_run = False
    error = from_native(_native.NativeError("brand_new", "something", may_have_run, ""))
    assert type(error) is SandboxError
    assert str(error) == "something"


def test_a_wrong_argument_is_also_a_value_error() -> None:
    assert issubclass(InvalidArgumentError, ValueError)


def test_a_failed_start_names_its_step() -> None:
    assert ExecFailedError("no /nope", reason="directory").step == "directory"


@pytest.mark.parametrize("leaf", LEAVES)
def test_an_exception_survives_pickling(leaf: type[SandboxError]) -> None:
    """Trainers raise through process pools."""
    error = leaf("words", may_have_run=True, reason="why")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own bytes)
    assert type(again) is leaf
    assert (str(again), again.may_have_run, again.reason) == ("words", True, "why")
