"""The app: routes, errors, and the controller behind them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from sandboxd.api import errors
from sandboxd.api.limits import BodyLimit
from sandboxd.api.routes import health, pools, sandboxes
from sandboxd.client import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandboxd.controller import Controller

HOSTS = ("localhost", "127.0.0.1", "::1", "[::1]", "sandboxd")
"""Names under which it is called. A page in a browser on this machine, which could make another
name lead here, has another one. The last is the SDK's for a Unix socket."""


def make_app(controller: Controller) -> FastAPI:
    """Put an app together that starts and stops the controller with itself."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await controller.start()
        try:
            yield
        finally:
            await controller.stop()

    app = FastAPI(
        title="sandboxd",
        version=__version__,
        lifespan=lifespan,
        # Their pages load scripts from elsewhere; /openapi.json is there.
        docs_url=None,
        redoc_url=None,
    )
    app.state.controller = controller
    app.add_middleware(BodyLimit)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS))
    errors.install(app)
    for module in (sandboxes, pools, health):
        app.include_router(module.router)
    return app
