"""Replies with HTTP 200 that are not what their protocol says, and refusals that are no outage: the run goes on."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.agent.desk import Desk
from shared.agent.loop import run_agent
from shared.bus import Bus
from shared.contracts.transcript import Turn
from shared.errors import EndpointAway, ToolBroken
from tests.models.at_work import READ_A, SUBMIT, Runner, core_for, endpoint_of
from tests.models.model_endpoints import Forgetful
from tests.models.model_endpoints import serving as playing
from tests.models.protocols import Anthropic, OpenAI, Protocol, Reply
from tests.serving import serving

Change = Callable[[dict[str, Any]], object]
HALF = "half a smile \ud83d"


def message(body: dict[str, Any]) -> dict[str, Any]:
    return body["choices"][0]["message"]


def call(body: dict[str, Any]) -> dict[str, Any]:
    return message(body)["tool_calls"][0]["function"]


def deep(levels: int) -> dict[str, Any]:
    return {"a": deep(levels - 1)} if levels else {}


def put(text: str | None) -> Change:
    return lambda body: body["content"].insert(0, {"type": "text", "text": text})


CHANGES: dict[str, dict[str, Change]] = {
    "openai": {
        "no message": lambda body: body["choices"][0].update(message=None),
        "no choice": lambda body: body.update(choices=[{}]),
        "object": lambda body: call(body).update(arguments=READ_A),
        "no name": lambda body: call(body).update(name=None),
        "parts": lambda body: message(body).update(content=[{"type": "text", "text": "I look."}]),
        "usage": lambda body: body.update(usage={"prompt_tokens": None, "completion_tokens": None}),
        "surrogate": lambda body: message(body).update(content=HALF),
        "surrogate in a call": lambda body: call(body).update(arguments=json.dumps({"paths": [HALF]})),
        "deep": lambda body: call(body).update(arguments=json.dumps(deep(400))),
        "long": lambda body: message(body).update(content="x" * 400_000),
        "thought": lambda body: message(body).update(reasoning_content="x" * 400_000),
        "garbage": lambda body: call(body).update(arguments="{" + "x" * 100_000),
    },
    "anthropic": {
        "no text": put(None),
        "no name": lambda body: body["content"][0].update(name=None),
        "no input": lambda body: body["content"][0].update(input=None),
        "text": lambda body: body["content"][0].update(input="paths"),
        "usage": lambda body: body.update(usage={}),
        "surrogate": put(HALF),
        "deep": lambda body: body["content"][0].update(input=deep(400)),
        "long": put("x" * 400_000),
    },
}


@pytest.mark.parametrize(
    ("protocol", "what"),
    [(one, what) for one in (Anthropic(), OpenAI()) for what in CHANGES[one.name]],
    indirect=["protocol"],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
async def test_it_is_a_turn_that_failed_and_no_crash(
    bus: Bus, desk: Desk, protocol: Protocol, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = protocol.reply(("c1", "read_files", READ_A))
    CHANGES[protocol.name][what](odd.body)
    with endpoint_of(monkeypatch, protocol, odd, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, Runner()):
            accepted = await run_agent(desk, core_for(protocol))
    assert accepted is not None and accepted.spent.turns == 2
    assert len(json.dumps(endpoint.bodies[-1])) < 50_000, "what cannot be read is not sent again and again"
    first = next(entry for entry in desk.entries if isinstance(entry, Turn))
    assert first.spent.tokens_estimated == (what == "usage"), "what a reply cost is counted, whatever it says"


async def test_an_error_told_with_http_200_is_told_on(bus: Bus, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    told = Reply(200, {"error": {"message": "the upstream model is overloaded", "code": 502}})
    with endpoint_of(monkeypatch, OpenAI(), told), pytest.raises(EndpointAway, match="upstream model is overloaded"):
        await run_agent(desk, core_for(OpenAI()))


async def test_a_call_that_the_server_could_not_read_is_said_to_the_model(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "error parsing tool call: raw='{\"paths\"', err=unexpected end of JSON input"
    lost = protocol.error(500, "api_error", said)
    with endpoint_of(monkeypatch, protocol, lost, protocol.reply(SUBMIT)) as endpoint:
        async with serving(bus, Runner()):
            assert await run_agent(desk, core_for(protocol)) is not None
    assert "Your last reply was lost" in endpoint.heard[2].words


async def test_a_context_smaller_than_listed_is_made_do_with(
    bus: Bus, desk: Desk, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = protocol.error(400, "invalid_request_error", "This model's maximum context length is 16384 tokens")
    long = [protocol.reply((f"c{n}", "read_files", {"paths": [f"{n}-{'x' * 9000}"]})) for n in range(6)]
    core = core_for(protocol, context=60_000, output=10_000)
    with playing(Forgetful(protocol, [*long, full, full, full, protocol.reply(SUBMIT)])) as endpoint:
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url)
        async with serving(bus, Runner()):
            assert await run_agent(desk, core) is not None
    sizes = [len(json.dumps(body["messages"])) for body in endpoint.asked[-4:]]
    assert sizes[0] > 100_000 and sizes[-1] < 40_000, "old results and the texts of old calls go"
    again = core_for(protocol)
    with playing(Forgetful(protocol, [full] * 5)) as endpoint, pytest.raises(ToolBroken, match="`context`"):
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url)
        await again.decide(desk.role, *desk.talk())
