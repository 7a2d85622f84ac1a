"""A person's login: the device authorization flow (RFC 8628) of the gateway's OpenID provider, kept and refreshed.

The command needs no browser and no open port: it prints an address and a code, and the person agrees wherever there
is a browser.
"""

import fcntl
import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from services.gateway.bodies import Login
from services.gateway.openid import SECONDS, certificates, discover, secret
from shared.embedded.processes import write_private
from shared.errors import Unavailable, UserError
from shared.settings import Settings

EARLY_SECONDS = 30.0
"""Before its end from which on a token is exchanged for a new one."""
_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
AGAIN = "Log in again: `m3builder login`."


class Kept(BaseModel):
    """`<home>/login.json`, mode 0600: the tokens of one person for one gateway."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    gateway: str
    token_endpoint: str
    client_id: str
    access_token: str
    refresh_token: str | None = None
    expires_at: float
    """Seconds since the epoch."""


def log_in(settings: Settings, offer: Login, tell: Callable[[str, str], None]) -> None:
    """Ask the provider for tokens and keep them. `tell` is given the address and the code for the person. Blocks until
    the person has agreed.

    Raises UserError when the person says no or takes too long, Unavailable when the provider does not answer.
    """
    if not secret(settings.gateway_url):
        raise UserError(f"{settings.gateway_url} is no https address: whoever listens could take your login.")
    found = discover(offer.issuer, ("token_endpoint", "device_authorization_endpoint"))
    asked = _post(found["device_authorization_endpoint"], {"client_id": offer.client_id, "scope": offer.scope})
    if "device_code" not in asked:
        client = f"Its client {offer.client_id!r} must be public and have the device flow."
        raise UserError(f"The OpenID provider refuses the login: {_why(asked)}. {client}")
    tell(str(asked.get("verification_uri_complete") or asked["verification_uri"]), str(asked["user_code"]))
    pause, end = float(asked.get("interval", 5)), time.monotonic() + float(asked["expires_in"])
    form = {"grant_type": _DEVICE, "device_code": str(asked["device_code"]), "client_id": offer.client_id}
    while time.monotonic() < end:
        time.sleep(pause)
        try:
            answer = _post(found["token_endpoint"], form)
        except Unavailable:
            continue  # the code outlives it
        if "access_token" in answer:
            path = _path(settings)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _keep(path, settings.gateway_url, found["token_endpoint"], offer.client_id, answer)
            return
        match answer.get("error"):
            case "authorization_pending":
                pass
            case "slow_down":
                pause += 5
            case _:
                raise UserError(f"You are not logged in: {_why(answer)}.")
    raise UserError(f"You are not logged in: nobody agreed in time. {AGAIN}")


def log_out(settings: Settings) -> None:
    """Forget the tokens."""
    _path(settings).unlink(missing_ok=True)


class Credentials(httpx.Auth):
    """Puts a token on each request: that of the settings, that of `gateway_token_file`, else that of the login."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if found := self.token():
            request.headers["Authorization"] = f"Bearer {found}"
        yield request

    def token(self) -> str | None:
        """None where there is none. Raises UserError for one that cannot be had any more."""
        if self._settings.gateway_token:
            return self._settings.gateway_token.get_secret_value()
        if file := self._settings.gateway_token_file:
            try:
                return file.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise UserError(f"The token file {file} cannot be read ({error}). Set M3_GATEWAY_TOKEN_FILE.") from None
        return _logged_in(self._settings)


def _logged_in(settings: Settings) -> str | None:
    path = _path(settings)
    kept = _kept(path, settings)
    if kept and _is_old(kept):
        # Of several commands at once one exchanges the token: many providers take a refresh token only once.
        with _alone(path):
            kept = _kept(path, settings)
            if kept and _is_old(kept):
                kept = _refreshed(path, kept)
    return kept.access_token if kept else None


def _refreshed(path: Path, kept: Kept) -> Kept:
    if not kept.refresh_token:
        raise UserError(f"Your login has expired. {AGAIN}")
    form = {"grant_type": "refresh_token", "refresh_token": kept.refresh_token, "client_id": kept.client_id}
    answer = _post(kept.token_endpoint, form)
    if "access_token" not in answer:
        raise UserError(f"Your login has ended: {_why(answer)}. {AGAIN}")
    # A provider that gives no new one means the old one to stay.
    return _keep(path, kept.gateway, kept.token_endpoint, kept.client_id, form | answer)


def _keep(path: Path, gateway: str, token_endpoint: str, client_id: str, answer: dict[str, Any]) -> Kept:
    kept = Kept(
        gateway=gateway,
        token_endpoint=token_endpoint,
        client_id=client_id,
        access_token=answer["access_token"],
        refresh_token=answer.get("refresh_token"),
        expires_at=time.time() + float(answer.get("expires_in", 300)),
    )
    write_private(path, json.dumps(kept.model_dump()))
    return kept


def _kept(path: Path, settings: Settings) -> Kept | None:
    """None where nobody has logged in at this gateway: another one must not get its token."""
    try:
        kept = Kept.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}). {AGAIN}") from None
    return kept if kept.gateway == settings.gateway_url else None


def _is_old(kept: Kept) -> bool:
    return kept.expires_at - EARLY_SECONDS < time.time()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _path(settings: Settings) -> Path:
    return settings.home.absolute() / "login.json"


def _post(address: str, form: dict[str, str]) -> dict[str, Any]:
    """The provider's answer, which says what went wrong in `error` where it did."""
    try:
        answer = httpx.post(address, data=form, timeout=4 * SECONDS, trust_env=False, verify=certificates())
        found = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"The OpenID provider at {address} does not answer ({type(error).__name__}).") from None
    return found if isinstance(found, dict) else {}


def _why(answer: dict[str, Any]) -> str:
    return str(answer.get("error_description") or answer.get("error") or "it gave no reason")
