"""`/v1/sandboxes`: claim, look, release."""

from __future__ import annotations

import hashlib
import os
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query

from sandboxd.api.depends import Control
from sandboxd.api.schemas import ID, ClaimBody, ReleasedBody, SandboxBody, SandboxesBody
from sandboxd.exceptions import InvalidArgumentError

router = APIRouter(prefix="/v1/sandboxes", tags=["sandboxes"])

SandboxId = Annotated[str, Path(pattern=ID)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=256)]
LabelFilters = Annotated[list[str] | None, Query(alias="label")]


@router.post("", status_code=201)
async def claim(body: ClaimBody, control: Control, key: Key = None) -> SandboxBody:
    """Claim a sandbox; answers when it is ready.

    A repeat with the same `id` or `Idempotency-Key` returns the same sandbox; with another body it
    is refused. Deleting it meanwhile cancels the claim. 429 if too many claims wait.
    """
    return SandboxBody.of(await control.claim(body.claim(body.id or _id_of(key))))


@router.get("")
async def list_all(control: Control, label: LabelFilters = None) -> SandboxesBody:
    """List the claimed sandboxes, with all of `label=name=value`."""
    wanted = dict(_label(each) for each in label or [])
    return SandboxesBody(
        sandboxes=[SandboxBody.of(each) for each in await control.sandboxes(wanted)]
    )


@router.get("/{sandbox_id}")
async def look(sandbox_id: SandboxId, control: Control) -> SandboxBody:
    """Return one sandbox, also one that ended not long ago."""
    return SandboxBody.of(await control.find(sandbox_id))


@router.delete("/{sandbox_id}")
async def release(sandbox_id: SandboxId, control: Control) -> ReleasedBody:
    """End a sandbox in whatever state it is; before it is ready that cancels its claim.

    One that is gone, or that nobody knows yet, is no error; a claim of that id that comes later is
    refused.
    """
    return ReleasedBody(id=sandbox_id, released=await control.release(sandbox_id))


def _id_of(key: str | None) -> str:
    """Make the id of a sandbox from the key of its claim: every replica makes the same."""
    digest = os.urandom(16) if key is None else hashlib.sha256(key.encode()).digest()[:16]
    return f"sb-{digest.hex()}"


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidArgumentError(f"label must be name=value, not {text[:80]!r}")
    return name, value
