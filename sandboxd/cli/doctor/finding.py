"""What a check reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One check and its result."""

    name: str
    """Stable, for scripts: `host.files`."""
    holds: bool | None
    """`None`: it could not be tried, and `saw` says why. That is no proof of anything."""
    tried: str
    """What was tried; empty where the agent just looked."""
    saw: str
    """What happened."""
    remedy: str | None = None
    """What to change when it does not hold."""

    @property
    def verdict(self) -> str:
        """One word for people."""
        return {True: "ok", False: "FAILED", None: "not tried"}[self.holds]
