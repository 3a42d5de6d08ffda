"""References that cannot take part on this machine."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class MissingReferenceError(Exception):
    """Why a reference cannot take part; what would change that."""


def program(name: str, package: str) -> str:
    """Path of a program.

    Raises:
        MissingReferenceError: It is not installed.
    """
    path = shutil.which(name)
    if path is None:
        raise MissingReferenceError(f"{name} is not installed (Debian package {package})")
    return path


class Contestants(dict[str, T]):
    """Contestants by name; those that cannot take part are in `missing`, with the reason."""

    def __init__(self, **known: T) -> None:
        super().__init__(**known)
        self.missing: dict[str, str] = {}

    def invite(self, name: str, make: Callable[[], T]) -> None:
        """Adds a contestant, or notes why it is missing."""
        try:
            self[name] = make()
        except MissingReferenceError as error:
            self.missing[name] = str(error)
