"""The command `sandboxd`. One file, or one folder, per subcommand."""

from sandboxd.cli.main import main

__all__ = ["main"]
