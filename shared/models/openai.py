"""The protocol `openai`: chat completions by OpenAI's SDK, which is also what compatible and local servers speak."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from shared.agent.core import Decision
from shared.agent.dialogue import (
    DECLINED,
    Asked,
    Exchange,
    begun,
    cut_off,
    estimated,
    read_arguments,
    said_of,
    unread,
)
from shared.contracts.base import Spent
from shared.contracts.tools import Picture
from shared.contracts.transcript import Call
from shared.models.endpoint import EndpointCore, no_reply

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

_CUT = {
    "length": cut_off("it reached the limit of tokens a reply"),
    "content_filter": cut_off("the endpoint's content filter left out part of it"),
}
"""Why a reply ended before its end; its last call is not carried out then, even if a server closed its brackets."""

_OF_MESSAGE = ("reasoning_content", "reasoning_details")
_OF_CALL = ("extra_content",)
"""Fields beyond the protocol in which servers give reasoning and signatures, and want them back."""


class OpenAICore(EndpointCore):
    sdk = ("openai", "AsyncOpenAI", "OpenAIError")

    def request(
        self, system: str, tools: list[dict[str, Any]], first: str, rest: list[Exchange], picture: str = ""
    ) -> dict[str, Any]:
        found = messages(system, first, rest)
        if picture:
            found[1]["content"] = [_text(first), _image("image/png", picture)]
        request: dict[str, Any] = {"model": self.listing.model.model, "messages": found}
        if tools:
            request["tools"] = [{"type": "function", "function": _function(tool)} for tool in tools]
        if limit := self.listing.endpoint.limit:
            request[limit] = self.max_output
        return request

    async def ask(self, request: dict[str, Any]) -> Decision:
        from openai.types.chat import ChatCompletion

        async def create(client: Any) -> object:
            return await client.chat.completions.create(**request)

        reply = await self.call(create)
        if not isinstance(reply, ChatCompletion) or not isinstance(reply.choices, list):
            raise no_reply(self.listing, reply)
        return self.read(reply, request)

    def decision(self, reply: ChatCompletion, request: dict[str, Any]) -> Decision:
        spent = self.bill(reply, request)
        if not reply.choices:
            return Decision(calls=(), spent=spent)
        choice = reply.choices[0]
        message, cut = choice.message, _CUT.get(choice.finish_reason, "")
        calls: list[Call] = []
        extras: list[JsonValue] = []
        items = message.tool_calls or []
        for item in items:
            if item.type == "custom":
                call = Call(name=item.custom.name, arguments=unread(item.custom.input), provider_id=item.id)
            else:
                raw = item.function.arguments or ""
                arguments = unread(raw) if cut and item is items[-1] else read_arguments(raw)
                call = Call(name=item.function.name or "", arguments=arguments, provider_id=item.id or "")
            calls.append(call)
            extras.append(_extra(item, _OF_CALL))
        of_message = _extra(message, _OF_MESSAGE)
        return Decision(
            calls=tuple(calls),
            text=_words(message.content or message.refusal or "").strip(),
            remark=cut or (DECLINED if message.refusal else ""),
            kept={"message": of_message, "calls": extras} if of_message or any(extras) else None,
            spent=spent,
        )

    def bill(self, reply: ChatCompletion, request: dict[str, Any]) -> Spent:
        """`prompt_tokens` of this API holds what was read from or written to the cache."""
        if reply.usage is None or None in (reply.usage.prompt_tokens, reply.usage.completion_tokens):
            given, made = estimated(request, reply.model_dump_json(include={"choices"}, exclude_none=True))
            return self.listing.spent(given, 0, 0, made, estimated=True)
        details = reply.usage.prompt_tokens_details
        # DeepSeek counts in a field of its own.
        own = (reply.usage.model_extra or {}).get("prompt_cache_hit_tokens")
        read = int((details and details.cached_tokens) or own or 0)
        unread = max(0, reply.usage.prompt_tokens - read)
        written = min(unread, (details.cache_write_tokens or 0) if details else 0)
        return self.listing.spent(unread - written, read, written, reply.usage.completion_tokens)


def _words(content: object) -> str:
    """Some servers give a reply's text in parts."""
    parts = content if isinstance(content, list) else [content]
    return "\n".join(str(one.get("text", "")) if isinstance(one, dict) else str(one) for one in parts)


def messages(system: str, first: str, rest: list[Exchange]) -> list[dict[str, Any]]:
    """System, then user and assistant in turn; each call's result is a message of its own before the remarks."""
    first, pictures, rest = begun(first, rest)
    content = [_text(first), *_shown(pictures)] if pictures else first
    rendered: list[dict[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": content}]
    for one in rest:
        kept: dict[str, Any] = (
            one.kept if isinstance(one.kept, dict) else {"message": {}, "calls": [{}] * len(one.asked)}
        )
        said: dict[str, Any] = {"role": "assistant", "content": one.text or None, **kept["message"]}
        if one.asked:
            said["tool_calls"] = [
                {**_tool_call(asked), **extra} for asked, extra in zip(one.asked, kept["calls"], strict=True)
            ]
        rendered.append(said)
        rendered += [{"role": "tool", "tool_call_id": asked.id, "content": said_of(asked)} for asked in one.asked]
        # Results hold no pictures in this protocol.
        if told := _shown([picture for asked in one.asked for picture in asked.pictures]):
            rendered.append({"role": "user", "content": [*told, *([_text(one.remarks)] if one.remarks else [])]})
        elif one.remarks:
            rendered.append({"role": "user", "content": one.remarks})
    return rendered


def _shown(pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    """Pictures of results, each behind its name; nothing where there are none."""
    named = [part for one in pictures for part in (_text(one.name), _image(one.media_type, one.content))]
    return [_text("The pictures of the results above:"), *named] if named else []


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(media_type: str, content: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{content}"}}


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}


def _tool_call(asked: Asked) -> dict[str, Any]:
    # Always JSON, even where the model's own was none: chat templates of local servers parse it again.
    arguments = json.dumps(asked.call.arguments, ensure_ascii=False)
    return {"id": asked.id, "type": "function", "function": {"name": asked.call.name, "arguments": arguments}}


def _extra(of: Any, names: tuple[str, ...]) -> dict[str, JsonValue]:
    found = of.model_extra or {}
    return {name: found[name] for name in names if found.get(name)}
