"""Whether the gateway, and what it needs, answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse

from services.gateway import bodies
from services.gateway.parts import Parts, any_parts
from shared.contracts.base import Ref

router = APIRouter()


@router.get("/healthz", tags=["health"])
async def alive() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", tags=["health"], responses={503: {"model": bodies.Health}})
async def ready(parts: Annotated[Parts, Depends(any_parts)]) -> JSONResponse:
    """Whether bus and store answer; 503 and what is wrong when one does not."""

    async def store() -> None:
        await asyncio.to_thread(
            parts.store.exists, Ref(bucket="work", key=f"sha256/00/{'0' * 64}", sha256="0" * 64, size=0)
        )

    async def bus() -> None:
        await parts.bus.cards()

    found = {name: await _trouble(probe) for name, probe in (("bus", bus), ("store", store))}
    unhealthy = {name: text for name, text in found.items() if text}
    health = bodies.Health(ready=not unhealthy, unhealthy=unhealthy)
    return JSONResponse(health.model_dump(), 503 if unhealthy else 200)


async def _trouble(probe: Callable[[], Awaitable[None]]) -> str:
    try:
        await asyncio.wait_for(probe(), 5)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
