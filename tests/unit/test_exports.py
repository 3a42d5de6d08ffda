"""The public API is what `sandboxd.__all__` says, no more and no less."""

from __future__ import annotations

import inspect
import pickle
import types

import pytest

import sandboxd
from sandboxd import exceptions
from sandboxd import types as values


def test_the_list_of_exports_is_sorted_and_has_no_repetition() -> None:
    assert sandboxd.__all__ == sorted(set(sandboxd.__all__))


def test_every_public_name_is_exported() -> None:
    public = {
        name
        for name, value in vars(sandboxd).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(sandboxd.__all__) - {"__version__"}


@pytest.mark.parametrize("module", [exceptions, values])
def test_everything_of_a_public_module_is_exported(module: types.ModuleType) -> None:
    assert module.__all__ == sorted(module.__all__)
    assert set(module.__all__) <= set(sandboxd.__all__)


def test_exports_show_the_package_as_their_module() -> None:
    for name in sandboxd.__all__:
        value = getattr(sandboxd, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__ == "sandboxd", name


def test_every_export_has_a_docstring() -> None:
    for name in sandboxd.__all__:
        value = getattr(sandboxd, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name


def test_every_public_method_has_a_docstring_of_its_own() -> None:
    for name in ("AsyncFiles", "AsyncProcess", "AsyncSandbox", "Files", "Process", "Sandbox"):
        for attribute, value in vars(getattr(sandboxd, name)).items():
            if not attribute.startswith("_"):
                assert inspect.getdoc(value), f"{name}.{attribute}"


def test_exported_classes_can_be_pickled_by_their_public_name() -> None:
    for name in sandboxd.__all__:
        value = getattr(sandboxd, name)
        if inspect.isclass(value):
            assert pickle.loads(pickle.dumps(value)) is value  # noqa: S301  (our own bytes)
