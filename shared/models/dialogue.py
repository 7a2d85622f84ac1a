"""What the cores behind an SDK share: the transcript as a dialogue, arguments as they came, failures in words."""

import json
import os
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from shared.contracts.base import Event, Spent
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation, Turn
from shared.errors import M3Error, ToolBroken, UserError
from shared.models.playbook import rounds

UNPARSED = "_unparsed"
"""The only argument of a call whose arguments could not be read. No tool has it: validation refuses the call."""

MAX_RETRIES = 6
"""With the SDKs' doubling delay half a minute; longer where the endpoint names a delay."""

TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True)
class Asked:
    """A call of the model and what came of it. `id` is unique in its segment."""

    id: str
    call: Call
    answer: str
    ok: bool


@dataclass(frozen=True)
class Exchange:
    """One turn of the model and all that it is told before the next. `remarks` is not empty where `asked` is."""

    text: str
    asked: tuple[Asked, ...]
    remarks: str


def exchanges(segment: list[Turn | Observation]) -> list[Exchange]:
    """The segment after its opening. The same entries always give the same exchanges, so that prefixes stay cached."""
    taken: set[str] = set()
    found = []
    for turn, observation in rounds(segment):
        results = {result.call_id: result for result in observation.results}
        asked = []
        for position, call in enumerate(turn.calls):
            # Some servers count their ids from zero in each reply, or give none.
            own = call.provider_id if call.provider_id not in taken else ""
            call_id = own or f"call_{turn.number}_{position}"
            taken.add(call_id)
            result = results.get(f"{turn.run_id}-{turn.role}-{turn.number}-{position}")
            asked.append(
                Asked(id=call_id, call=call, answer=_answer(call, result), ok=result is not None and result.ok)
            )
        remarks = _remarks(observation)
        if not asked and not remarks:
            remarks = "Go on with a tool, or end with a submission."
        text = turn.text if turn.text.strip() or asked else "(no words and no tool call)"
        found.append(Exchange(text=text.strip(), asked=tuple(asked), remarks=remarks))
    return found


def read_arguments(raw: str) -> dict[str, JsonValue]:
    """Arguments as a model wrote them. What is no JSON object is kept under `_unparsed`; nothing at all means none."""
    try:
        arguments = json.loads(raw, parse_constant=_no_number) if raw.strip() else {}
    except (ValueError, RecursionError):
        return {UNPARSED: raw}
    return arguments if isinstance(arguments, dict) else {UNPARSED: raw}


def remark(text: str, *more: str) -> str:
    """The model's words, followed by what has to be said about its reply."""
    return "\n".join(part for part in (text.strip(), *more) if part)


def cut_off(why: str) -> str:
    return f"[This reply was cut off: {why}. Write less in one turn: split long files over several calls.]"


def estimated(request: dict[str, Any], reply: str) -> Spent:
    """For endpoints that do not count."""
    return Spent(
        input_tokens=len(json.dumps(request)) // 4, output_tokens=len(reply.encode()) // 4, tokens_estimated=True
    )


def placeholder_key(provider: str) -> str | None:
    """A key for servers that ask for none, as the SDKs refuse to work without; None where the SDK finds its own.

    Raises UserError where neither a key nor an address is set.
    """
    name = provider.upper()
    if any(os.environ.get(f"{name}_{kind}") for kind in ("API_KEY", "AUTH_TOKEN")):
        return None
    if os.environ.get(f"{name}_BASE_URL"):
        return "none"
    raise UserError(
        f"there are no credentials for the core {provider}: set {name}_API_KEY, or {name}_BASE_URL for an endpoint of "
        "your own that asks for none, in the environment of `m3builder up`"
    )


def no_reply(provider: str, model: str) -> ToolBroken:
    return ToolBroken(
        f"the endpoint of {provider}:{model} answered with something else than a reply of its protocol; check "
        f"{provider.upper()}_BASE_URL"
    )


def failure(provider: str, model: str, error: Exception) -> M3Error:
    """An SDK's final error as one of ours. Both SDKs name their attributes alike.

    UserError is what the person can mend (key, account, model name); ToolBroken is all else, after the SDK's retries.
    """
    name = provider.upper()
    status = getattr(error, "status_code", None)
    code = getattr(error, "code", None)
    if status in (401, 403):
        # The endpoint's words may repeat part of the key, and the log of a run is kept for long.
        return UserError(f"the endpoint of {provider}:{model} refused the key (HTTP {status}): check {name}_API_KEY")
    if status == 402 or code == "insufficient_quota":
        return UserError(f"the account behind {name}_API_KEY has no credit left for {provider}:{model}")
    if status == 404 or code == "model_not_found":
        return UserError(
            f"the endpoint knows no model {model!r} (HTTP {status}): check its name, that {name}_API_KEY may use it, "
            f"and {name}_BASE_URL if it is set"
        )
    body = getattr(error, "body", None)  # the SDKs' own message repeats it as a Python literal
    inner = body.get("error", body) if isinstance(body, dict) else None
    said = " ".join(str((inner.get("message") if isinstance(inner, dict) else None) or error).split())[:400]
    if status is None:
        return ToolBroken(f"the endpoint of {provider}:{model} could not be reached, after all retries: {said}")
    return ToolBroken(f"the endpoint of {provider}:{model} answered HTTP {status}: {said}")


def _answer(call: Call, result: ToolResult | None) -> str:
    if result is None:
        return "no result is on record"
    if UNPARSED in call.arguments:
        return f"the arguments were no complete JSON object, so the call was not made; {result.summary}"
    return result.summary if result.summary.strip() else "(only white space)"


def _remarks(observation: Observation) -> str:
    """Notes and events as text. A check's problems stand in the submission's result too, and are said once."""
    told = [result.summary for result in observation.results]
    parts = [note for note in observation.notes if not any(note in summary for summary in told)]
    if observation.event is not None:
        parts.append(_event(observation.event))
    return "\n\n".join(part for part in parts if part.strip())


def _event(event: dict[str, JsonValue]) -> str:
    """An event without its bookkeeping. References to the store are nothing that a model could follow."""
    facts: dict[str, Any] = {
        name: value for name, value in event.items() if name not in Event.model_fields and name != "log"
    }
    if isinstance(facts.get("outputs"), dict):
        facts["outputs"] = sorted(facts["outputs"])
    return f"{event.get('kind', 'event')}:\n{json.dumps(facts, indent=1, ensure_ascii=False)}"


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
