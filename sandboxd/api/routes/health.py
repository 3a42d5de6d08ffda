"""`/healthz` and `/readyz`."""

from __future__ import annotations

from fastapi import APIRouter

from sandboxd.api.depends import Control
from sandboxd.api.schemas import HealthBody

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> HealthBody:
    """Answer, which says that the process works. Asks nobody."""
    return HealthBody()


@router.get("/readyz")
async def readyz(control: Control) -> HealthBody:
    """Answer 200 if every agent answers, else 503."""
    await control.agents()
    return HealthBody()
