"""How one logs in here, and as whom one is known then."""

from typing import Annotated

from fastapi import APIRouter, Depends

from services.gateway import bodies
from services.gateway.parts import PROBLEMS, Parts, Who, any_parts
from shared.errors import NotFound

router = APIRouter(responses=PROBLEMS)


@router.get("/login", tags=["identity"])
async def get_login(parts: Annotated[Parts, Depends(any_parts)]) -> bodies.Login:
    """Where, as which client and for what to ask for a token; open to everybody."""
    settings = parts.settings
    if not settings.oidc_issuer:
        raise NotFound("This gateway has a token of its own and no OpenID provider: `m3builder token` prints it.")
    return bodies.Login(issuer=settings.oidc_issuer, client_id=settings.oidc_client_id, scope=settings.oidc_scope)


@router.get("/me", tags=["identity"])
async def get_me(who: Who) -> bodies.Me:
    """The visitor's name and rights."""
    return bodies.Me(name=who.name, rights=tuple(sorted(who.rights)))
