"""Who a visitor is, and what the visitor may do: by the system's own token, or by one of an OpenID provider."""

import asyncio
import hmac
import json
import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jwt

from services.gateway.openid import SECONDS, certificates, discover
from shared.errors import M3Error, Unavailable
from shared.settings import Right, Settings

RIGHTS: frozenset[Right] = frozenset(get_args(Right))
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Of a provider's signatures: none that a public key could forge, as `none` and HMAC are."""
KEYS_SECONDS = 600.0
"""How long a provider's keys are taken without asking again."""
COOLDOWN_SECONDS = 10.0
"""Since the last answer, until an unknown key is asked for: tokens of strangers must not become a flood for it."""
LEEWAY_SECONDS = 10.0
"""How far the provider's clock and ours may differ."""
NAME_LENGTH = 200


LOGIN = "Log in: `m3builder login`."


class TurnedAway(M3Error):
    """The visitor may not do this: `status` 401 where a token lets nobody in, 403 where `who`, known, lacks a right."""

    def __init__(self, status: Literal[401, 403], error: str, hint: str, who: str = "") -> None:
        super().__init__(error)
        self.status, self.hint, self.who = status, hint, who


@dataclass(frozen=True)
class Visitor:
    """A person at the door. `name` is what stands in runs and audit."""

    name: str
    rights: frozenset[Right]

    def may_see(self, asked_by: str) -> bool:
        """Whether a run of this person may be seen: one's own, or every run for an operator."""
        return "operate" in self.rights or asked_by == self.name != ""


class Identities:
    """Reads what visitors show. Without a token and an issuer in the settings everybody may do everything, as nobody;
    no gateway is started so (`server.run`)."""

    def __init__(self, settings: Settings) -> None:
        token = settings.gateway_token
        self._token = token.get_secret_value().encode() if token else b""
        self._issuer = _Issuer(settings) if settings.oidc_issuer else None
        self._roles = settings.oidc_roles

    async def visitor(self, authorization: str) -> Visitor:
        """Raises TurnedAway, Unavailable when the provider does not answer, ServerUnfit when it is none."""
        if not self._token and not self._issuer:
            return Visitor("", RIGHTS)
        kind, _, given = authorization.partition(" ")
        shown = given.strip() if kind.lower() == "bearer" else ""
        if self._token and hmac.compare_digest(shown.encode(), self._token):
            return Visitor(user(), RIGHTS)
        if not self._issuer:
            hint = "Send `Authorization: Bearer TOKEN`; `m3builder token` prints it to who started the system."
            raise TurnedAway(401, "The gateway does not know you.", hint)
        if not shown:
            raise TurnedAway(401, "The gateway does not know you.", LOGIN)
        found = await asyncio.to_thread(self._issuer.visitor, shown)
        if self._token and found.name == user():
            raise TurnedAway(
                401, f"{found.name} is the operator's own token.", "Set M3_OIDC_USER_CLAIM to another claim."
            )
        return found

    def lacks(self, right: Right, visitor: Visitor) -> TurnedAway:
        """What to tell a visitor who would need `right`."""
        giving = [role for role, rights in self._roles.items() if right in rights]
        error = f"This needs the right {right!r}; you have {', '.join(sorted(visitor.rights))}."
        return TurnedAway(403, error, f"The OpenID provider gives it with the role {' or '.join(giving) or '(none)'}.")


def user() -> str:
    """The login name of the user that this process runs as, in whose name the system's own token acts."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


class _Issuer:
    """Blocking. The provider's keys are fetched at the first token and then kept for a while."""

    def __init__(self, settings: Settings) -> None:
        self._name, self._audience = str(settings.oidc_issuer), settings.oidc_audience
        self._user_claim, self._roles_claim = settings.oidc_user_claim, settings.oidc_roles_claim
        self._roles: Mapping[str, tuple[Right, ...]] = settings.oidc_roles
        self._keys: jwt.PyJWKClient | None = None

    def visitor(self, token: str) -> Visitor:
        claims = self._claims(token)
        name = claims.get(self._user_claim)
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= NAME_LENGTH:
            error = f"Your token does not say who you are: its claim {self._user_claim!r} is no name."
            raise TurnedAway(401, error, "M3_OIDC_USER_CLAIM has to name a claim of the OpenID provider.")
        roles = _texts(claims, self._roles_claim)
        rights = frozenset(right for role in roles for right in self._roles.get(role, ()))
        if not rights:
            error = f"{name} has none of the roles {', '.join(self._roles)} (claim {self._roles_claim!r})."
            hint = "Have one given to you at the OpenID provider, then `m3builder login` again."
            raise TurnedAway(403, error, hint, name)
        return Visitor(name, rights)

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            # Before anybody is asked for a key.
            if jwt.get_unverified_header(token).get("alg") not in ALGORITHMS:
                raise jwt.InvalidAlgorithmError("it is not signed with a key pair")
            claims: dict[str, Any] = jwt.decode(
                token,
                self._signing_keys().get_signing_key_from_jwt(token),
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self._name,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWKClientConnectionError, json.JSONDecodeError) as error:
            raise Unavailable(f"The OpenID provider at {self._name} does not give its keys ({error}).") from None
        except jwt.ExpiredSignatureError:
            raise TurnedAway(401, "Your token has expired.", LOGIN) from None
        except jwt.InvalidAudienceError:
            hint = "The OpenID provider must put that into its `aud`, or M3_OIDC_AUDIENCE name what it puts there."
            raise TurnedAway(401, f"Your token is not meant for {self._audience!r}.", hint) from None
        except (jwt.PyJWTError, RecursionError) as error:
            raise TurnedAway(401, f"Your token is none of {self._name}: {error}.", LOGIN) from None
        if _no_access_token(claims):
            raise TurnedAway(401, "Your token is an ID or refresh token.", "Send the access token.")
        return claims

    def _signing_keys(self) -> jwt.PyJWKClient:
        if self._keys is None:
            address = discover(self._name, ("jwks_uri",))["jwks_uri"]
            self._keys = jwt.PyJWKClient(
                address,
                lifespan=KEYS_SECONDS,
                cooldown_duration=COOLDOWN_SECONDS,
                timeout=SECONDS,
                ssl_context=certificates(),
            )
        return self._keys


def _no_access_token(claims: Mapping[str, Any]) -> bool:
    """Providers sign these with the same key, some for the same audience, and each says so in its own way."""
    kinds = [str(claims.get(name, "access")).lower() for name in ("token_use", "typ")]
    return any(kind in ("id", "refresh", "offline") for kind in kinds) or "at_hash" in claims


def _texts(claims: Mapping[str, Any], path: str) -> Iterable[str]:
    """The texts of a claim, or of one in another (`realm_access.roles`)."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for step in path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, str):
        return found.split()
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
