"""What an endpoint says and what it may be told: one class a protocol, with the same methods, so that every scenario
is told once."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import ConfigDict, TypeAdapter

Use = tuple[str, str, Any]
"""Id, tool, arguments; a string in place of arguments is sent as it is."""


@dataclass
class Reply:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    broken: Literal["", "dropped", "half", "late"] = ""
    """The connection is closed without a reply, or in the middle of it; the reply comes when nobody waits any more."""


@dataclass
class Said:
    """A message of a request, the same for both protocols: who, words, calls or results by id."""

    who: str
    words: str = ""
    calls: dict[str, tuple[str, Any]] = field(default_factory=dict)
    results: dict[str, tuple[bool, str]] = field(default_factory=dict)
    thought: list[Any] = field(default_factory=list)
    """What the endpoint had given with the message and wants back."""
    pictures: list[str] = field(default_factory=list)
    """Base64."""


class Typed:
    """Requests are what the SDK's own types say, and nothing besides."""

    params: Any

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        # A list, as such a type may not be given a configuration by itself.
        return TypeAdapter(list[self.params], config=ConfigDict(extra="forbid"))  # type: ignore[name-defined]

    def check(self, body: dict[str, Any]) -> None:
        """Raises ValidationError, a ValueError."""
        _walk(self._adapter.validate_python([body]))


def _walk(value: Any) -> None:
    """Iterables are only looked at when they are read."""
    if not isinstance(value, str | bytes):
        for one in value.values() if isinstance(value, dict) else value if hasattr(value, "__iter__") else ():
            _walk(one)


class Anthropic(Typed):
    name = "anthropic"
    params = MessageCreateParamsNonStreaming
    path = "/v1/messages"
    base = ""

    def reply(
        self, *uses: Use, text: str = "", read: int = 10, wrote: int = 5, cached: tuple[int, int] = (0, 0)
    ) -> Reply:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [{"type": "tool_use", "id": i, "name": name, "input": given} for i, name, given in uses]
        usage = {"input_tokens": read - sum(cached), "output_tokens": wrote}
        usage |= {"cache_creation_input_tokens": cached[0], "cache_read_input_tokens": cached[1]}
        return self._message(blocks, "tool_use" if uses else "end_turn", usage)

    def stopped(self, reply: Reply, why: Literal["length", "refusal"]) -> Reply:
        reply.body["stop_reason"] = {"length": "max_tokens"}.get(why, why)
        return reply

    def garbled(self) -> Reply:
        """What this API gives when a call is cut off: the arguments that were complete by then."""
        return self.stopped(self.reply(("g1", "run_script", {"command": "rm -r"})), "length")

    def thoughtful(self, *uses: Use) -> tuple[Reply, Any]:
        """A reply with reasoning, and how that has to come back: in its place, as signed."""
        reply = self.reply(*uses, text="I look.")
        thoughts = [{"type": "thinking", "thinking": "", "signature": "s1"}, {"type": "redacted_thinking", "data": "r"}]
        reply.body["content"][0:0] = thoughts[:1]
        reply.body["content"][2:2] = thoughts[1:]
        return reply, [thoughts[0], {"type": "text", "text": "I look."}, thoughts[1]]

    def uncounted(self, *uses: Use) -> Reply:
        reply = self.reply(*uses)
        del reply.body["usage"]
        return reply

    def error(self, status: int, kind: str, message: str, **headers: str) -> Reply:
        return Reply(status, {"type": "error", "error": {"type": kind, "message": message}}, headers)

    def _message(self, blocks: list[dict[str, Any]], stop: str, usage: dict[str, int]) -> Reply:
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        return Reply(200, {**head, "content": blocks, "stop_reason": stop, "usage": usage})

    def static(self, body: dict[str, Any]) -> str:
        assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
        assert body["tools"][-1]["cache_control"] == {"type": "ephemeral"}
        assert 2 < json.dumps(body).count("cache_control") <= 4, "the API takes four marks"
        assert body["max_tokens"] > 0
        assert all(tool["input_schema"]["type"] == "object" for tool in body["tools"])
        return json.dumps([body["system"], body["tools"]])

    def system(self, body: dict[str, Any]) -> str:
        return "".join(block["text"] for block in body["system"])

    def said(self, body: dict[str, Any]) -> list[Said]:
        found = []
        for number, message in enumerate(body["messages"]):
            assert message["role"] == ("assistant" if number % 2 else "user"), "roles alternate"
            assert message["content"], "no message is empty"
            one = Said(message["role"])
            for block in message["content"]:
                if block["type"] == "text":
                    assert block["text"].strip(), "no text is empty"
                    one.words += block["text"]
                    one.thought.append({name: block[name] for name in ("type", "text")})
                elif block["type"] in ("thinking", "redacted_thinking"):
                    assert block is not message["content"][-1], "a message does not end in thought"
                    one.thought.append(block)
                elif block["type"] == "image":
                    assert not number, "pictures are in results, or in the first message"
                    one.pictures.append(block["source"]["data"])
                elif block["type"] == "tool_use":
                    assert isinstance(block["input"], dict)
                    one.calls[block["id"]] = (block["name"], block["input"])
                else:
                    assert block["type"] == "tool_result" and not one.words, "results come first"
                    parts = block["content"]
                    told = parts if isinstance(parts, str) else parts[0]["text"]
                    assert told.strip()
                    one.results[block["tool_use_id"]] = (not block["is_error"], told)
                    one.pictures += [] if isinstance(parts, str) else [each["source"]["data"] for each in parts[1:]]
            if number:
                assert list(one.results) == list(found[-1].calls), "each call has its result in the next message"
            found.append(one)
        assert found[-1].who == "user"
        return found


class OpenAI(Typed):
    name = "openai"
    params = CompletionCreateParamsNonStreaming
    path = "/v1/chat/completions"
    base = "/v1"

    def reply(
        self, *uses: Use, text: str = "", read: int = 10, wrote: int = 5, cached: tuple[int, int] = (0, 0)
    ) -> Reply:
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if uses:
            message["tool_calls"] = [
                {"id": i, "type": "function", "function": {"name": name, "arguments": _text(given)}}
                for i, name, given in uses
            ]
        details = {"cache_write_tokens": cached[0], "cached_tokens": cached[1]}
        usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
        choice = {"index": 0, "finish_reason": "tool_calls" if uses else "stop", "message": message}
        head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
        return Reply(200, {**head, "choices": [choice], "usage": {**usage, "prompt_tokens_details": details}})

    def stopped(self, reply: Reply, why: Literal["length", "refusal"]) -> Reply:
        choice = reply.body["choices"][0]
        choice["finish_reason"] = {"refusal": "content_filter"}.get(why, why)
        return reply

    def garbled(self) -> Reply:
        return self.stopped(self.reply(("g1", "run_script", '{"command": "rm -r')), "length")

    def thoughtful(self, *uses: Use) -> tuple[Reply, Any]:
        reply = self.reply(*uses, text="I look.")
        message = reply.body["choices"][0]["message"]
        message["reasoning_content"] = "hm"
        message["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "s1"}}
        return reply, ["hm", {"google": {"thought_signature": "s1"}}]

    def check(self, body: dict[str, Any]) -> None:
        """Without what is beyond the protocol, and comes back only to servers that gave it (`thoughtful`)."""
        plain = json.loads(json.dumps(body))
        for message in plain["messages"]:
            message.pop("reasoning_content", None)
            for use in message.get("tool_calls", ()):
                use.pop("extra_content", None)
        super().check(plain)

    def uncounted(self, *uses: Use) -> Reply:
        reply = self.reply(*uses)
        del reply.body["usage"]
        return reply

    def error(self, status: int, kind: str, message: str, **headers: str) -> Reply:
        return Reply(status, {"error": {"type": kind, "code": kind, "message": message, "param": None}}, headers)

    def static(self, body: dict[str, Any]) -> str:
        assert body["messages"][0]["role"] == "system"
        assert all(tool["function"]["parameters"]["type"] == "object" for tool in body["tools"])
        return json.dumps([body["messages"][0], body["tools"]])

    def system(self, body: dict[str, Any]) -> str:
        return str(body["messages"][0]["content"])

    def said(self, body: dict[str, Any]) -> list[Said]:
        found: list[Said] = []
        waiting: list[str] = []
        for message in body["messages"][1:]:
            match message["role"]:
                case "tool":
                    assert message["tool_call_id"] == waiting.pop(0), "results come in the order of the calls"
                    if found[-1].who != "user":
                        found.append(Said("user"))
                    failed = message["content"].startswith("Error: ")
                    found[-1].results[message["tool_call_id"]] = (not failed, message["content"])
                case "user" if isinstance(message["content"], list):
                    assert not waiting, "each call has its result before a picture is shown"
                    if not found or found[-1].who != "user":
                        found.append(Said("user"))
                    for part in message["content"]:
                        if part["type"] == "text":
                            found[-1].words += part["text"]
                        else:
                            found[-1].pictures.append(part["image_url"]["url"].partition("base64,")[2])
                case "user":
                    assert not waiting, "each call has its result before anything else is said"
                    assert message["content"].strip()
                    if found and found[-1].who == "user":
                        assert found[-1].results and not found[-1].words, "roles alternate"
                        found[-1].words = message["content"]
                    else:
                        found.append(Said("user", message["content"]))
                case "assistant":
                    assert not waiting and found[-1].who == "user", "roles alternate"
                    uses = message.get("tool_calls", [])
                    assert uses or message["content"].strip(), "no message is empty"
                    one = Said("assistant", message["content"] or "")
                    for use in uses:
                        given = json.loads(use["function"]["arguments"])
                        one.calls[use["id"]] = (use["function"]["name"], given)
                    extra = [message.get("reasoning_content"), *(use.get("extra_content") for use in uses)]
                    one.thought = [each for each in extra if each]
                    waiting = list(one.calls)
                    found.append(one)
        assert found[-1].who == "user" and not waiting
        return found


Protocol = Anthropic | OpenAI


def _text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)
