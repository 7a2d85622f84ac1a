"""`openai:<model>`: chat completions by OpenAI's SDK, which is also what compatible and local servers speak.

OPENAI_API_KEY and OPENAI_BASE_URL (with its `/v1`) say where. No limit of tokens is sent: servers disagree on its name.
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
    read_arguments,
    remark,
)

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

_SAID = {
    "length": cut_off("it reached the limit of tokens a reply"),
    "content_filter": "[The endpoint's content filter left out part of this reply.]",
}


class OpenAICore:
    """Keeps nothing between turns: client and connection live as long as one request."""

    def __init__(self, model: str, max_retries: int = MAX_RETRIES, timeout: float = TIMEOUT_SECONDS) -> None:
        self.name = f"openai:{model}"
        self._model = model
        self._max_retries = max_retries
        self._timeout = timeout

    async def decide(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> Decision:
        """Raises UserError for key, account or model name; ToolBroken when the endpoint fails after all retries."""
        key = placeholder_key("openai")
        await asyncio.to_thread(importlib.import_module, "openai")  # a second, on first use
        import openai

        request = self._request(role, brief, segment)
        try:
            async with openai.AsyncOpenAI(api_key=key, max_retries=self._max_retries, timeout=self._timeout) as client:
                reply: object = await client.chat.completions.create(**request)
        except openai.OpenAIError as error:
            raise failure("openai", self._model, error) from error
        if not isinstance(reply, openai.types.chat.ChatCompletion) or not reply.choices:
            raise no_reply("openai", self._model)
        return _decision(reply, request)

    def _request(self, role: Role, brief: Brief, segment: list[Turn | Observation]) -> dict[str, Any]:
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": tool["input_schema"],
                },
            }
            for tool in tool_schemas(role)
        ]
        return {
            "model": self._model,
            "tools": tools,
            "messages": messages(system_prompt(role), opening(brief), exchanges(segment)),
        }


def messages(system: str, first: str, rest: list[Exchange]) -> list[dict[str, Any]]:
    """System, then user and assistant in turn; each call's result is a message of its own before the remarks."""
    rendered: list[dict[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": first}]
    for one in rest:
        said: dict[str, Any] = {"role": "assistant", "content": one.text or None}
        if one.asked:
            said["tool_calls"] = [_tool_call(asked.id, asked.call) for asked in one.asked]
        rendered.append(said)
        # This protocol has no flag for a failed call.
        rendered += [
            {
                "role": "tool",
                "tool_call_id": asked.id,
                "content": asked.answer if asked.ok else f"Error: {asked.answer}",
            }
            for asked in one.asked
        ]
        if one.remarks:
            rendered.append({"role": "user", "content": one.remarks})
    return rendered


def _tool_call(call_id: str, call: Call) -> dict[str, Any]:
    # Always JSON, even where the model's own was none: chat templates of local servers parse it again.
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _decision(reply: ChatCompletion, request: dict[str, Any]) -> Decision:
    choice = reply.choices[0]
    calls = []
    for item in choice.message.tool_calls or []:
        if item.type == "custom":
            calls.append(Call(name=item.custom.name, arguments={UNPARSED: item.custom.input}, provider_id=item.id))
        else:
            arguments = read_arguments(item.function.arguments or "")
            calls.append(Call(name=item.function.name, arguments=arguments, provider_id=item.id or ""))
    text = remark(choice.message.content or "", choice.message.refusal or "", _SAID.get(choice.finish_reason, ""))
    return Decision(calls=tuple(calls), text=text, spent=_spent(reply, request))


def _spent(reply: ChatCompletion, request: dict[str, Any]) -> Spent:
    """`prompt_tokens` of this API holds what was read from or written to the cache."""
    if reply.usage is not None:
        return Spent(input_tokens=reply.usage.prompt_tokens, output_tokens=reply.usage.completion_tokens)
    return estimated(request, reply.choices[0].message.model_dump_json(exclude_none=True))
