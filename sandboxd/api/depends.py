"""What routes need."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from sandboxd.controller import Controller


def _controller(request: Request) -> Controller:
    return cast("Controller", request.app.state.controller)


Control = Annotated[Controller, Depends(_controller)]
