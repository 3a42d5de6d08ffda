"""`sandboxd demo`: rollouts over HumanEval, each in a sandbox of its own.

A rollout claims a sandbox, thinks, writes a candidate solution with its tests, runs them under
limits, and tries again if they failed. A third of the first candidates are broken on purpose, so
that every way to fail is seen and scored.
"""

from sandboxd.cli.demo.command import demo

__all__ = ["demo"]
