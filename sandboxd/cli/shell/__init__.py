"""`sandboxd shell`: a terminal in a sandbox, for a person."""

from sandboxd.cli.shell.command import shell

__all__ = ["shell"]
