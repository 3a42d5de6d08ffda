"""`/v1/pools` and `/v1/templates`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path

from sandboxd.api.depends import Control
from sandboxd.api.schemas import PoolBody, PoolsBody, ResizeBody, TemplatesBody

if TYPE_CHECKING:
    from sandboxd.controller import Controller

router = APIRouter(prefix="/v1", tags=["pools"])

Template = Annotated[str, Path(min_length=1, max_length=4_095)]


@router.get("/templates")
async def templates(control: Control) -> TemplatesBody:
    """List what sandboxes can be made from."""
    return TemplatesBody(templates=list(await control.templates()))


@router.get("/pools")
async def pools(control: Control) -> PoolsBody:
    """List the warm pools."""
    return PoolsBody(
        pools=[PoolBody.of(each, _claims(control, each.template)) for each in control.pools()]
    )


@router.put("/pools/{template}")
async def resize(template: Template, body: ResizeBody, control: Control) -> PoolBody:
    """Give a warm pool a size, or make one; 0 empties it. Answers before it is full."""
    status = await control.resize(template, body.size)
    return PoolBody.of(status, _claims(control, template))


def _claims(control: Controller, template: str) -> dict[str, int]:
    return {launch: control.launches[template, launch] for launch in ("warm", "cold")}
