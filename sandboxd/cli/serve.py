"""`sandboxd serve`: the control API."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from sandboxd import InvalidArgumentError
from sandboxd.cli import console

_NEEDS_EXTRA = "sandboxd: serve needs its extra: pip install 'sandboxd[cli,serve]'"
_MODULES = frozenset({"fastapi", "grpc", "google", "pydantic", "starlette", "uvicorn"})


def serve(
    *,
    host: Annotated[
        str, typer.Option(help="Loopback address to listen at.", envvar="SANDBOXD_SERVE_HOST")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(help="Port; 0 takes any.", envvar="SANDBOXD_SERVE_PORT", min=0, max=65535),
    ] = 8010,
    socket: Annotated[
        Path | None,
        typer.Option(
            help="Unix socket to listen at, instead of a port.", envvar="SANDBOXD_SERVE_SOCKET"
        ),
    ] = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEMPLATE=N",
            help="Keep N sandboxes of a template ready. May be given again.",
            envvar="SANDBOXD_SERVE_POOL",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Folder of the agent, of this user alone.", envvar="SANDBOXD_STATE"),
    ] = None,
) -> None:
    """Serve sandboxes to other processes over HTTP, with warm pools.

    Trainers set SANDBOXD_URL to the printed address and change nothing else. The agent that has the
    sandboxes outlives this process while any is claimed: a restart finds them all.

    \b
    sandboxd serve --pool host=8
    SANDBOXD_URL=http://127.0.0.1:8010 python3 train.py
    """  # noqa: D301  (click: do not wrap)
    try:
        # Here, not above: a command line without the extra has its other commands.
        from sandboxd.api import Address, make_app  # noqa: PLC0415
        from sandboxd.api import serve as serve_app  # noqa: PLC0415
        from sandboxd.backends import LocalBackend  # noqa: PLC0415
        from sandboxd.controller import Controller  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _MODULES:
            raise
        console.ERR.print(_NEEDS_EXTRA, markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    sizes = dict(_size(each) for each in pool or [])
    _log_to_stderr()
    controller = Controller(LocalBackend(state), sizes)
    serve_app(make_app(controller), Address(path=socket, host=host, port=port))


def _size(text: str) -> tuple[str, int]:
    template, _, count = text.partition("=")
    if not template or not count.isascii() or not count.isdigit() or int(count) > _LARGEST:
        raise InvalidArgumentError(
            f"--pool must be TEMPLATE=N with N from 0 to {_LARGEST}, not {text!r}"
        )
    return template, int(count)


_LARGEST = 4_096
"""Sandboxes of one pool: as many as one agent can have."""


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    for name, level in (("sandboxd", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
