"""The protocol `anthropic`: the Messages API, by Anthropic's SDK.

No thinking is asked for: a model does what it does by default. What it thought goes back with its turn, as signed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from shared.agent.core import Decision
from shared.agent.dialogue import DECLINED, Asked, Exchange, begun, cut_off, estimated, read_arguments, unread
from shared.contracts.base import Spent
from shared.contracts.transcript import Call
from shared.models.endpoint import EndpointCore, no_reply

if TYPE_CHECKING:
    from anthropic.types import Message, Usage

CACHED = {"type": "ephemeral"}
"""Five minutes: a role that sleeps on a training would not profit from an hour at twice the price."""

_CUT = {
    "max_tokens": cut_off("it reached the limit of tokens a reply"),
    "model_context_window_exceeded": cut_off("the context is full"),
    "refusal": DECLINED,
}
"""Why a reply ended before its end; its last call is not carried out then."""

_THOUGHT = ("thinking", "redacted_thinking")


class AnthropicCore(EndpointCore):
    sdk = ("anthropic", "AsyncAnthropic", "AnthropicError")

    def request(
        self, system: str, tools: list[dict[str, Any]], first: str, rest: list[Exchange], picture: str = ""
    ) -> dict[str, Any]:
        found = messages(first, rest)
        if picture:
            found[0]["content"].insert(0, _image("image/png", picture))
        request: dict[str, Any] = {
            "model": self.listing.model.model,
            "max_tokens": self.max_output,
            "system": [{**_text(system), "cache_control": CACHED}],
            "messages": found,
        }
        if tools:
            request["tools"] = [*tools[:-1], {**tools[-1], "cache_control": CACHED}]
        return request

    async def ask(self, request: dict[str, Any]) -> Decision:
        from anthropic.types import Message

        async def create(client: Any) -> object:
            return await client.messages.create(**request)

        reply = await self.call(create)
        if not isinstance(reply, Message) or not isinstance(reply.content, list):
            raise no_reply(self.listing, reply)
        return self.read(reply, request)

    def decision(self, reply: Message, request: dict[str, Any]) -> Decision:
        cut = _CUT.get(reply.stop_reason or "", "")
        calls = []
        for block in reply.content:
            if block.type == "tool_use":
                whole = not (cut and block is reply.content[-1])
                arguments = read_arguments(block.input) if whole else unread(json.dumps(block.input))
                calls.append(Call(name=block.name or "", arguments=arguments, provider_id=block.id or ""))
        text = "\n".join(block.text or "" for block in reply.content if block.type == "text").strip()
        return Decision(
            calls=tuple(calls), text=text, remark=cut, kept=_kept(reply, bool(cut)), spent=self.bill(reply, request)
        )

    def bill(self, reply: Message, request: dict[str, Any]) -> Spent:
        """`input_tokens` of this API leaves out what was read from or written to the cache."""
        usage: Usage | None = getattr(reply, "usage", None)  # servers that only imitate the protocol may not count
        if usage is None or None in (getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None)):
            given, made = estimated(request, reply.model_dump_json(include={"content"}))
            return self.listing.spent(given, 0, 0, made, estimated=True)
        read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        return self.listing.spent(usage.input_tokens, read, written, usage.output_tokens)


def messages(first: str, rest: list[Exchange]) -> list[dict[str, Any]]:
    """User and assistant in turn. The last two user messages are marked for the cache: what one turn writes, the next
    reads, even when a turn has more blocks than the cache looks back."""
    first, pictures, rest = begun(first, rest)
    seen = [_image(one.media_type, one.content) for one in pictures]
    rendered: list[dict[str, Any]] = [{"role": "user", "content": [_text(first), *seen]}]
    for one in rest:
        results = [
            {"type": "tool_result", "tool_use_id": asked.id, "content": _answer(asked), "is_error": not asked.ok}
            for asked in one.asked
        ]
        rendered.append({"role": "assistant", "content": _said(one)})
        # Results must come before any text.
        rendered.append({"role": "user", "content": [*results, *([_text(one.remarks)] if one.remarks else [])]})
    for message in rendered[-3::2]:
        message["content"][-1]["cache_control"] = CACHED
    return rendered


def _said(one: Exchange) -> list[dict[str, Any]]:
    uses: list[dict[str, Any]] = [
        {"type": "tool_use", "id": asked.id, "name": asked.call.name, "input": asked.call.arguments}
        for asked in one.asked
    ]
    if not isinstance(one.kept, list):
        return [*([_text(one.text)] if one.text else []), *uses]
    waiting = iter(uses)
    said = [next(waiting) if block == {"type": "tool_use"} else dict(block) for block in one.kept]  # type: ignore[arg-type]
    # A message must not end in thought.
    return [*said, _text(one.text)] if said[-1]["type"] in _THOUGHT else said


def _kept(reply: Message, cut: bool) -> JsonValue:
    """The blocks in their order, with a place for each call; None for a reply without thought."""
    blocks: list[JsonValue] = []
    for block in reply.content:
        if block.type in _THOUGHT and not (cut and block is reply.content[-1]):  # cut, it is not signed
            blocks.append(block.model_dump(mode="json", exclude_none=True))
        elif block.type == "tool_use":
            blocks.append({"type": "tool_use"})
        elif block.type == "text" and (block.text or "").strip():
            blocks.append(_text(block.text))
    return blocks if any(isinstance(one, dict) and one["type"] in _THOUGHT for one in blocks) else None


def _answer(asked: Asked) -> str | list[dict[str, Any]]:
    if not asked.pictures:
        return asked.answer
    return [_text(asked.answer), *(_image(one.media_type, one.content) for one in asked.pictures)]


def _image(media_type: str, content: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": content}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
