"""How long a request may be. Read by nobody before it is known: bodies live in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_BODY = 8 * 1024 * 1024
"""Bytes. Above the longest environment that agents take (1 MiB), in base64."""


class BodyLimit:
    """Refuses bodies that are too long, with whatever length they claim."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an app."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > LONGEST_BODY:
                raise HTTPException(413, f"the body is longer than {LONGEST_BODY} bytes")
            return message

        await self._app(scope, counted, send)
