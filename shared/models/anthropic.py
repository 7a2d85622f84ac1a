"""`anthropic:<model>`: the Messages API, by Anthropic's SDK. ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL say where.

The reply's thinking is not recorded, and no thinking is asked for: a model does what it does by default.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import TYPE_CHECKING, Any

from shared.agent.brief import Brief
from shared.agent.core import Decision
from shared.agent.prompt import opening, system_prompt, tool_schemas
from shared.agent.role import Role
from shared.contracts.base import Spent
from shared.contracts.transcript import Call, Observation, Turn
from shared.models.dialogue import (
    MAX_RETRIES,
    TIMEOUT_SECONDS,
    UNPARSED,
    Exchange,
    cut_off,
    estimated,
    exchanges,
    failure,
    no_reply,
    placeholder_key,
    remark,
)

if TYPE_CHECKING:
    from anthropic.types import Message, Usage

CACHED = {"type": "ephemeral"}
"""Five minutes: a role that sleeps on a training would not profit from an hour at twice the price."""

_CUT = {"max_tokens": "it reached the limit of tokens a reply", "model_context_window_exceeded": "the context is full"}


class AnthropicCore:
    """Keeps nothing between turns: client and connection live as long as one request."""

    def __init__(
        self, model: str, max_tokens: int = 16_000, max_retries: int = MAX_RETRIES, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        self.name = f"anthropic:{model}"
        self._model = model
        self._max_tokens = max_tokens
        self._max_retries = max_retries
        self._timeout = timeout

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        """Raises UserError for key, account or model name; ToolBroken when the endpoint fails after all retries."""
        key = placeholder_key("anthropic")
        await asyncio.to_thread(importlib.import_module, "anthropic")  # seconds, on first use
        import anthropic

        request = self._request(role, brief, segment)
        try:
            async with anthropic.AsyncAnthropic(
                api_key=key, max_retries=self._max_retries, timeout=self._timeout
            ) as client:
                reply: object = await client.messages.create(**request)
        except anthropic.AnthropicError as error:
            raise failure("anthropic", self._model, error) from error
        if not isinstance(reply, anthropic.types.Message) or not isinstance(reply.content, list):
            raise no_reply("anthropic", self._model)
        return _decision(reply, request)

    def _request(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> dict[str, Any]:
        tools = tool_schemas(role)
        tools[-1]["cache_control"] = CACHED
        return {
            "model": self._model,
            "max_tokens": self._max_tokens,
            "system": [{"type": "text", "text": system_prompt(role), "cache_control": CACHED}],
            "tools": tools,
            "messages": messages(opening(brief), exchanges(segment)),
        }


def messages(first: str, rest: list[Exchange]) -> list[dict[str, Any]]:
    """User and assistant in turn. The last two user messages are marked for the cache: what one turn writes, the next
    reads, even when a turn has more blocks than the cache looks back."""
    rendered: list[dict[str, Any]] = [{"role": "user", "content": [_text(first)]}]
    for one in rest:
        said = [_text(one.text)] if one.text else []
        uses = [
            {"type": "tool_use", "id": asked.id, "name": asked.call.name, "input": asked.call.arguments}
            for asked in one.asked
        ]
        results = [
            {"type": "tool_result", "tool_use_id": asked.id, "content": asked.answer, "is_error": not asked.ok}
            for asked in one.asked
        ]
        rendered.append({"role": "assistant", "content": [*said, *uses]})
        # Results must come before any text.
        rendered.append({"role": "user", "content": [*results, *([_text(one.remarks)] if one.remarks else [])]})
    for message in rendered[-3::2]:
        message["content"][-1]["cache_control"] = CACHED
    return rendered


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _decision(reply: Message, request: dict[str, Any]) -> Decision:
    why = _CUT.get(reply.stop_reason or "")
    calls = []
    for block in reply.content:
        if block.type == "tool_use":
            whole = isinstance(block.input, dict) and not (why and block is reply.content[-1])
            arguments = block.input if whole else {UNPARSED: json.dumps(block.input)}
            calls.append(Call(name=block.name, arguments=arguments, provider_id=block.id))
    text = "\n".join(block.text for block in reply.content if block.type == "text")
    more = [cut_off(why)] if why else ["[The model declined.]"] if reply.stop_reason == "refusal" else []
    return Decision(calls=tuple(calls), text=remark(text, *more), spent=_spent(reply, request))


def _spent(reply: Message, request: dict[str, Any]) -> Spent:
    """`input_tokens` of this API leaves out what was read from or written to the cache."""
    usage: Usage | None = getattr(reply, "usage", None)  # servers that only imitate the protocol may not count
    if usage is None:
        return estimated(request, reply.model_dump_json(include={"content"}))
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return Spent(input_tokens=usage.input_tokens + cached, output_tokens=usage.output_tokens)
