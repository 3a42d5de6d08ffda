"""`sandboxd run`: one program in a sandbox of its own."""

from sandboxd.cli.run.command import run

__all__ = ["run"]
