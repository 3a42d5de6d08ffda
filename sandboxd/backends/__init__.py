"""Where agents come from."""

from sandboxd.backends.base import Backend
from sandboxd.backends.local import LocalBackend

__all__ = ["Backend", "LocalBackend"]
