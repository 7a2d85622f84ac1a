"""What both protocols share: a core that asks a model at its endpoint, and the endpoint's failures in our words."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import replace
from email.utils import mktime_tz, parsedate_tz
from typing import Any, ClassVar, TypeVar

from shared import telemetry
from shared.agent.brief import Brief
from shared.agent.core import Decision
from shared.agent.dialogue import Exchange, estimated, exchanges, fitted, shown, sound
from shared.agent.prompt import opening, system_prompt, tool_schemas
from shared.agent.role import Role
from shared.contracts.base import Spent
from shared.contracts.disclosure import Disclosed
from shared.contracts.transcript import Call, Observation, Turn
from shared.disclosure.requests import Outgoing, refuse_pictures
from shared.errors import EndpointAway, M3Error, ToolBroken, UserError
from shared.models.catalogue import Listing

MAX_RETRIES = 4
"""Of one request, with the SDK's growing, jittered delays or those that the endpoint names, up to two minutes each."""

TIMEOUT_SECONDS = 1800.0
"""A slow server of one's own writes a long file at twenty tokens a second."""

REST_SECONDS = 300.0
"""The longest wait that an endpoint may ask for before it is tried again all the same."""

MAX_OUTPUT = 32_000
"""Tokens of a reply, reasoning included; a turn has to fit into a message of the bus."""

MALFORMED = "[Your last reply could not be read: it was not well-formed. Say it again, with a call.]"

LEAST_SHARE = 0.1
"""Of the room that a model is listed with, below which it is not tried to make do."""

T = TypeVar("T")


class ContextFull(ToolBroken):
    """The endpoint will not have a request of this length."""


class UnreadCall(ToolBroken):
    """The endpoint's server could not read what its own model said: no outage, however often it is asked."""


class EndpointCore(ABC):
    """A model behind an endpoint. Client and connection live as long as one request."""

    opened = True
    sdk: ClassVar[tuple[str, str, str]]
    """Its module, the client's class and the root of its errors."""

    def __init__(
        self,
        listing: Listing,
        max_retries: int = MAX_RETRIES,
        timeout: float = TIMEOUT_SECONDS,
        patience: float = REST_SECONDS,
    ) -> None:
        self.listing = listing
        self.name = listing.name
        self.sees = not listing.blind
        self.max_output = min(listing.model.output, MAX_OUTPUT)
        self.on_record: Callable[[Disclosed], Awaitable[None]] = _unrecorded
        """Is told of each request to an endpoint outside of the hospital before it is made."""
        self._share = 1.0
        """Of the room that the model's listing promises, what its server has."""
        self._outgoing: Outgoing | None = None
        """Of the last request: the next one begins with it. A new core makes the same again."""
        self._max_retries = max_retries
        self._timeout = timeout
        self._patience = patience

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        """Raises UserError for key, account or model name; EndpointAway while the endpoint cannot be worked with;
        ToolBroken for a request that it will not have."""
        while True:
            try:
                return await self._decide(role, brief, segment)
            except UnreadCall as unread:
                return Decision(calls=(), remark=f"[Your last reply was lost: {unread}. Say it again.]")
            except ContextFull as full:
                if self._share < LEAST_SHARE:
                    raise ToolBroken(
                        f"{full}; put the model's `context` into the file that M3_MODELS_FILE names"
                    ) from None
                self._share /= 2

    async def _decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        if self.listing.endpoint.inside:
            request = self.body(role, brief, opening(brief), shown(exchanges(segment), self.listing.blind))
            with telemetry.chat_span(role.name, brief.run_id, self.name):
                return await self.ask(request)
        outgoing = self._outgoing = await asyncio.to_thread(self._left, brief, segment)
        request = self.body(role, brief, outgoing.first, outgoing.rest)
        if not self.listing.endpoint.pixels:
            refuse_pictures(request, self.name)
        await self.on_record(outgoing.disclosed())
        with telemetry.chat_span(role.name, brief.run_id, self.name):
            return outgoing.restored(await self.ask(request))

    def read(self, reply: Any, request: dict[str, Any]) -> Decision:
        """What a reply says. One that calls itself a reply and is none is a turn without calls: it is asked again, and
        who never says anything else is stuck."""
        odd = (AttributeError, KeyError, TypeError, ValueError)
        try:
            found = self.decision(reply, request)
        except odd:
            given, made = estimated(request, "")
            spent = self.listing.spent(given, 0, 0, made, estimated=True)
            with contextlib.suppress(*odd):
                spent = self.bill(reply, request)
            return Decision(calls=(), remark=MALFORMED, spent=spent)
        calls = tuple(Call.model_validate(sound(call.model_dump(mode="python"))) for call in found.calls)
        return replace(found, calls=calls, text=sound(found.text), kept=sound(found.kept))

    def _left(self, brief: Brief, segment: list[Turn | Observation]) -> Outgoing:
        kept = self._outgoing
        found = kept if kept and kept.brief == brief else Outgoing(brief, self.name, self.listing.blind)
        found.follow(segment)
        return found

    def body(self, role: Role, brief: Brief, first: str, rest: list[Exchange]) -> dict[str, Any]:
        """The request for a role's next turn: its first message, and what was said since."""
        outside = not self.listing.endpoint.inside
        system, tools = system_prompt(role, brief.requested.without, outside), tool_schemas(role)
        room = int((self.listing.model.context - self.max_output) * self._share)
        told = fitted(rest, room, also=len(system + first) + len(json.dumps(tools)))
        return self.request(system, tools, first, told)

    @abstractmethod
    def request(
        self, system: str, tools: list[dict[str, Any]], first: str, rest: list[Exchange], picture: str = ""
    ) -> dict[str, Any]:
        """The body of a request; `picture` is a PNG in base64 that goes with the first message."""

    @abstractmethod
    async def ask(self, request: dict[str, Any]) -> Decision: ...

    @abstractmethod
    def decision(self, reply: Any, request: dict[str, Any]) -> Decision:
        """Of a reply as the protocol has it."""

    @abstractmethod
    def bill(self, reply: Any, request: dict[str, Any]) -> Spent: ...

    async def call(self, what: Callable[[Any], Awaitable[T]]) -> T:
        """Do something with a client of the SDK, whose errors come out as ours."""
        key = self.listing.key()
        module, client, root = self.sdk
        found = await asyncio.to_thread(importlib.import_module, module)  # seconds, on first use
        try:
            async with getattr(found, client)(
                api_key=key, base_url=self.listing.url, max_retries=self._max_retries, timeout=self._timeout
            ) as one:
                return await what(one)
        except getattr(found, root) as error:
            fault = failure(self.listing, error, key)
            if isinstance(fault, EndpointAway):
                await asyncio.sleep(min(_asked_to_wait(error), self._patience))
            raise fault from None
        except ValueError:
            raise no_reply(self.listing) from None  # a body that calls itself JSON and is none


_TOO_LONG = re.compile(
    r"context (length|window|size)|too long|too many tokens|maximum.{0,40}tokens|prompt.{0,40}exceed", re.I
)
"""As the two protocols' makers and local servers say that a request is more than the model takes."""
_UNREAD_CALL = re.compile(r"pars\w+ tool|tool.call.{0,60}(pars|json|invalid|unexpected)", re.I)
"""As Ollama and llama.cpp say it."""


async def _unrecorded(disclosed: Disclosed) -> None:
    pass


def no_reply(listing: Listing, reply: object = None) -> EndpointAway:
    error = getattr(reply, "error", None)  # some gateways tell of a failure with HTTP 200
    said = str(error.get("message", error) if isinstance(error, dict) else error)[:200] if error else ""
    what = f"an error: {said}" if said else "something else than its protocol's replies"
    return EndpointAway(
        f"the endpoint of {listing.name} ({listing.address}) answered with {what}: "
        f"check {listing.variable('BASE_URL')}",
        listing.name,
        f"it answers with {what}",
    )


def failure(listing: Listing, error: Exception, key: str) -> M3Error:
    """An SDK's final error as one of ours. Both SDKs name their attributes alike.

    UserError is what the person can mend (key, account, model name); EndpointAway what passes by itself: the run waits;
    ToolBroken all else.
    """
    name, variable = listing.name, listing.variable("API_KEY")
    status = getattr(error, "status_code", None)
    code = getattr(error, "code", None)
    if status in (401, 403):
        # The endpoint's words may repeat part of the key, and the log of a run is kept for long.
        return UserError(f"the endpoint of {name} refused the key (HTTP {status}): check {variable}")
    if status == 402 or code == "insufficient_quota":
        return UserError(f"the account behind {variable} has no credit left for {name}")
    if status == 404 or code == "model_not_found":
        return UserError(
            f"the endpoint knows no model {listing.model.model!r} (HTTP {status}): check its name, that {variable} may "
            f"use it, and {listing.variable('BASE_URL')} if it is set"
        )
    body = getattr(error, "body", None)  # the SDKs' own message repeats it as a Python literal
    inner = body.get("error", body) if isinstance(body, dict) else None
    said = " ".join(str((inner.get("message") if isinstance(inner, dict) else None) or error).split())
    said = (said.replace(key, "(the key)") if len(key) > 4 else said)[:400]
    if status is None:
        where = f"could not be reached at {listing.address}: {said.rstrip('.')}"
        told = f"the endpoint of {name} {where}; is it up, and {listing.variable('BASE_URL')} right?"
        return EndpointAway(told, name, "it could not be reached")
    if status < 300:
        return no_reply(listing)
    if status == 400 and _TOO_LONG.search(said):
        return ContextFull(f"the endpoint of {name} answered HTTP 400: {said}")
    if status == 500 and _UNREAD_CALL.search(said):
        return UnreadCall(f"the endpoint could not read its call ({said})")
    passing = status in (408, 409, 425, 429) or status >= 500
    told = f"the endpoint of {name} answered HTTP {status}: {said}"
    return EndpointAway(told, name, f"HTTP {status}: {said}"[:200]) if passing else ToolBroken(told)


def _asked_to_wait(error: Exception) -> float:
    """Seconds of a `retry-after` that the SDK found too long to wait for; 0 where there is none."""
    response = getattr(error, "response", None)
    asked = str(response.headers.get("retry-after", "")) if response is not None else ""
    try:
        return max(0.0, float(asked))
    except ValueError:
        at = parsedate_tz(asked)
        return max(0.0, mktime_tz(at) - time.time()) if at else 0.0
