"""Checks of what a sandbox promises, to be run against any set-up of yours.

`sandboxd.testing.conformance` has the checks: plain async functions without a test framework.
`LocalSetup` runs them against the agent of this machine; another set-up is a class with the
members of `Setup`. From a shell: `python -m sandboxd.testing [--setup package.module:name]`.
"""

from sandboxd.testing.check import Check, CheckFailedError
from sandboxd.testing.conformance import CHECKS
from sandboxd.testing.setup import LocalSetup, Outside, Setup, load_setup

__all__ = ["CHECKS", "Check", "CheckFailedError", "LocalSetup", "Outside", "Setup", "load_setup"]
