"""Errors as RFC 9457 problem bodies. The `code` is the same as on the wire and in Python."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, cast

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sandboxd.exceptions import InternalError, InvalidArgumentError, SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI, Request

LOG = logging.getLogger("sandboxd.api")

MEDIA_TYPE = "application/problem+json"

STATUSES: Mapping[str, int] = {
    "invalid_argument": 400,
    "unauthenticated": 401,
    "unknown_template": 404,
    "sandbox_not_found": 404,
    "sandbox_closed": 410,
    "sandbox_lost": 410,
    "unsupported": 422,
    "resource_exhausted": 429,
    "launch_failed": 502,
    "connection_lost": 502,
    "agent_unreachable": 503,
    "agent_missing": 503,
    "state_unusable": 503,
}
"""Codes that are not here are defects of ours: 500."""

_RETRY_AFTER = 1
"""Seconds after which a caller may try again that was refused because of too many others."""

_OF_HTTP = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


def install(app: FastAPI) -> None:
    """Have every error of an app answered as a problem."""
    app.add_exception_handler(SandboxError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_defect)


def problem(error: SandboxError, **more: Any) -> JSONResponse:
    """Build the answer for an error."""
    status = STATUSES.get(error.code, 500)
    headers = {"Retry-After": str(_RETRY_AFTER)} if status == 429 else None  # noqa: PLR2004  (by the RFC)
    return _body(
        status,
        error.code,
        str(error),
        headers,
        may_have_run=error.may_have_run,
        reason=error.reason,
        **more,
    )


def _body(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    content = {
        "type": f"urn:sandboxd:error:{code}",
        "title": code.replace("_", " "),
        "status": status,
        "code": code,
        "detail": detail,
        **more,
    }
    return JSONResponse(content, status, headers, MEDIA_TYPE)


async def _on_error(_request: Request, error: Exception) -> JSONResponse:
    return problem(cast("SandboxError", error))


async def _on_invalid(_request: Request, error: Exception) -> JSONResponse:
    found = [_found(each) for each in cast("RequestValidationError", error).errors()]
    words = "; ".join(f"{each['field']}: {each['message']}" for each in found)
    return problem(InvalidArgumentError(words), errors=found)


def _found(error: Mapping[str, Any]) -> dict[str, str]:
    """Name the field of one failed check, and say what is wrong with it."""
    location: Sequence[Any] = error["loc"]
    if error["type"] == "json_invalid":
        at = location[1] if len(location) > 1 else 0
        reason = error.get("ctx", {}).get("error", "not JSON")
        return {"field": "body", "message": f"not JSON at byte {at}: {reason}"}
    # Where it was found (body, query, header) says less than its name.
    field = ".".join(str(part) for part in location[1:]) or str(location[0])
    if error["type"] == "extra_forbidden":
        return {"field": field, "message": "no such field"}
    message = str(error["msg"])
    shown = _shown(error.get("input"))
    return {"field": field, "message": f"{message}, not {shown}" if shown else message}


def _shown(value: object) -> str:
    """Show a small wrong value; anything else may be long, or not the caller's business."""
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return ""


async def _on_http(_request: Request, error: Exception) -> JSONResponse:
    refusal = cast("HTTPException", error)
    code = _OF_HTTP.get(refusal.status_code, "invalid_argument")
    return _body(refusal.status_code, code, str(refusal.detail), refusal.headers)


async def _on_defect(request: Request, error: Exception) -> JSONResponse:
    LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(InternalError("a defect of sandboxd: see the log of the control plane"))
