"""What an OpenID provider says of itself, for the gateway that takes its tokens and the command that asks for them."""

import ssl
from typing import Any
from urllib.parse import urlsplit

import httpx

from shared.errors import ServerUnfit, Unavailable

SECONDS = 5.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def secret(address: str) -> bool:
    """Whether nobody on the way hears what is sent there."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def certificates() -> ssl.SSLContext:
    """The authorities that this machine trusts; SSL_CERT_FILE names others."""
    return ssl.create_default_context()


def discover(issuer: str, wants: tuple[str, ...]) -> dict[str, str]:
    """The provider's endpoints `wants` (OpenID Connect Discovery). Blocks for at most some seconds.

    Raises Unavailable when it does not answer, ServerUnfit when it is no provider that can be used.
    """
    if not secret(issuer):
        raise ServerUnfit(f"The OpenID provider {issuer} must have an https address. Set M3_OIDC_ISSUER.")
    address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        answer = httpx.get(address, timeout=SECONDS, trust_env=False, verify=certificates())
        found: Any = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"The OpenID provider at {issuer} does not answer ({type(error).__name__}).") from None
    told = found.get("issuer") if isinstance(found, dict) else None
    if told != issuer:
        raise ServerUnfit(f"The OpenID provider at {issuer} says that it is {told!r}. Set M3_OIDC_ISSUER to its name.")
    endpoints = {name: str(found.get(name) or "") for name in wants}
    if lacking := [name for name, url in endpoints.items() if not secret(url)]:
        raise ServerUnfit(f"The OpenID provider at {issuer} has no https address as {', '.join(lacking)}.")
    return endpoints
