"""What the environment says about the agent."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandboxd.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

_KEEPALIVE = 5.0
_START_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The variables `SANDBOXD_*`, read when an agent is first needed."""

    binary: Path
    """`SANDBOXD_AGENT_BINARY`; default: the one that comes with the package."""
    state: Path
    """`SANDBOXD_STATE`, then `SANDBOXD_AGENT_STATE`; default: `/run/sandboxd` as root, else
    `$XDG_RUNTIME_DIR/sandboxd` or `/tmp/sandboxd-UID`."""
    socket: str | None
    """`SANDBOXD_SOCKET`: an agent that runs already. Default: one of our own is started."""
    keepalive: float
    """`SANDBOXD_KEEPALIVE`, seconds (5): an agent that is silent three times as long is lost."""
    start_timeout: float
    """`SANDBOXD_START_TIMEOUT`, seconds (30): the time an agent has for its first answer."""


def read() -> Settings:
    """Read the environment."""
    from pathlib import Path  # noqa: PLC0415  (a fifth of what importing the package costs)

    environ = os.environ
    binary = environ.get("SANDBOXD_AGENT_BINARY")
    state = environ.get("SANDBOXD_STATE") or environ.get("SANDBOXD_AGENT_STATE")
    return Settings(
        binary=Path(binary) if binary else Path(__file__).parent.parent / "_bin" / "sandboxd-agent",
        state=Path(state or _default_state()).absolute(),
        socket=environ.get("SANDBOXD_SOCKET") or None,
        keepalive=_seconds("SANDBOXD_KEEPALIVE", _KEEPALIVE),
        start_timeout=_seconds("SANDBOXD_START_TIMEOUT", _START_TIMEOUT),
    )


def _default_state() -> str:
    if os.geteuid() == 0:
        return "/run/sandboxd"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    # In /tmp anybody may be first: the folder is checked for its owner before it is used.
    return f"{runtime}/sandboxd" if runtime else f"/tmp/sandboxd-{os.geteuid()}"  # noqa: S108  (see above)


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 86_400:  # noqa: PLR2004  (a day)
        raise InvalidArgumentError(f"{name} must be a number of seconds above 0, not {text!r}")
    return value
