"""The control plane: pools, claims, and where sandboxes are. Knows nothing of HTTP."""

from sandboxd.controller.controller import Controller, Placed
from sandboxd.controller.pool import PoolStatus

__all__ = ["Controller", "Placed", "PoolStatus"]
