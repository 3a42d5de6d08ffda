"""The subcommands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from sandboxd import __version__
from sandboxd.cli import console
from sandboxd.cli.demo import demo
from sandboxd.cli.doctor import doctor
from sandboxd.cli.ls import ls
from sandboxd.cli.run import run
from sandboxd.cli.serve import serve
from sandboxd.cli.shell import shell

app = typer.Typer(
    name="sandboxd",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Run programs in isolated sandboxes, about as fast as without.",
    epilog="Begin with: sandboxd doctor, then sandboxd run -- echo hello",
)


def _show_version(asked: bool) -> None:  # noqa: FBT001  (as typer calls it)
    if asked:
        console.OUT.print(f"sandboxd {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the release, and exit."
        ),
    ] = False,
) -> None:
    """Take the options that belong to no subcommand."""


# Everything after the first word that is no option of ours belongs to the program.
app.command(context_settings={"allow_interspersed_args": False})(run)
app.command()(shell)
app.command()(ls)
app.command()(doctor)
app.command()(demo)
app.command()(serve)
