"""Every promise of a sandbox that can be tried through the SDK alone.

One suite for every backend: the same checks with the same expectations; where an agent lacks a
capability, the checks that need it cannot be tried and say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandboxd.testing import (
    causes,
    commands,
    files,
    graders,
    kept_output,
    lifetimes,
    limits,
    output,
    shells,
    streams,
    terminals,
    timeouts,
)

if TYPE_CHECKING:
    from sandboxd.testing.check import Check

CHECKS: tuple[Check, ...] = (
    *timeouts.registry.checks,
    *streams.registry.checks,
    *output.registry.checks,
    *kept_output.registry.checks,
    *terminals.registry.checks,
    *shells.registry.checks,
    *commands.registry.checks,
    *causes.registry.checks,
    *files.registry.checks,
    *limits.registry.checks,
    *lifetimes.registry.checks,
    *graders.registry.checks,
)
