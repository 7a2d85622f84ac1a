"""The route that shows who asked, looked, downloaded, approved and erased."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from services.gateway.parts import PROBLEMS, Known, needs

router = APIRouter(responses=PROBLEMS)


@router.get("/audit", tags=["audit"], response_class=PlainTextResponse, dependencies=needs("operate"))
async def get_audit(parts: Known) -> Response:
    """Every visit since the first, as JSON Lines: when, who, what was asked, the answer's status, what was made."""
    return StreamingResponse(parts.audit.lines(), media_type="application/jsonl")
