"""What both protocols are made from: the transcript as a dialogue, and arguments as they came."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import JsonValue

from shared.agent.showing import as_text, fenced
from shared.contracts.tools import TOOLS, Picture, ToolResult
from shared.contracts.transcript import OPENING, Call, Observation, Turn

UNPARSED = "_unparsed"
"""The only argument of a call whose arguments could not be read. No tool has it: validation refuses the call."""

CHARACTERS = 3
"""Of a token; code and figures take more tokens than prose. On the safe side."""

SHORT = 200
"""Characters of a result, or of a text in a call, that stay however full a request is."""

UNREAD = 500
"""Characters that are kept of arguments which could not be read: they go with each later request."""

DEEPEST = 50
"""Levels of lists and objects that arguments may have."""

PICTURE_TOKENS = 1_500
"""What a picture of ours is counted as: endpoints take 600 to 1,400 for its million pixels."""

SHOWN = 6
"""Turns for which a picture is shown at least, and twice as many at most."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]{1000,}={0,2}")

DECLINED = "[The model declined to answer.]"


@dataclass(frozen=True)
class Asked:
    """A call of the model and what came of it. `id` is unique in its segment."""

    id: str
    call: Call
    answer: str
    ok: bool
    pictures: tuple[Picture, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Exchange:
    """One turn of the model and all that it is told before the next. `remarks` is not empty where `asked` is."""

    text: str
    asked: tuple[Asked, ...]
    remarks: str
    kept: JsonValue = None
    """The model's reasoning as its protocol wants it back."""
    number: int = 0
    """Of the turn."""
    opening: bool = False
    """Its calls were made for the model, which is told of them in its first message."""


def rounds(segment: list[Turn | Observation]) -> list[tuple[Turn, Observation]]:
    """Each turn with all that came of it: its results and, where it started a job, the event that ended the job."""
    found: list[tuple[Turn, Observation]] = []
    for entry in segment[1:]:  # the first is the order itself
        if isinstance(entry, Turn):
            found.append((entry, Observation(run_id=entry.run_id, role=entry.role, number=entry.number)))
        else:
            turn, before = found[-1]
            merged = entry.model_copy(
                update={"results": before.results + entry.results, "notes": before.notes + entry.notes}
            )
            found[-1] = (turn, merged)
    return found


def exchanges(segment: list[Turn | Observation]) -> list[Exchange]:
    """The segment after its opening. The same entries always give the same exchanges, so that prefixes stay cached."""
    taken: set[str] = set()
    found = []
    for place, (turn, observation) in enumerate(rounds(segment), 1):
        results = {result.call_id: result for result in observation.results}
        asked = []
        for position, call in enumerate(turn.calls):
            # Some servers count their ids from zero in each reply, or give none.
            own = call.provider_id if call.provider_id not in taken else ""
            call_id = own or f"call_{place}_{position}"
            taken.add(call_id)
            result = results.get(f"{turn.run_id}-{turn.role}-{turn.number}-{position}")
            pictures, ok = (result.pictures, result.ok) if result else ((), False)
            asked.append(Asked(call_id, call, _answer(call, result), ok, pictures))
        remarks = "\n\n".join(part for part in (turn.remark, _remarks(observation)) if part)
        if not asked and not remarks:
            remarks = "Go on with a tool, or end with a submission."
        text = turn.text if turn.text.strip() or asked else "(no words and no tool call)"
        kept, number, opening = turn.kept, turn.number, turn.core == OPENING
        found.append(Exchange(text.strip(), tuple(asked), remarks, kept, number, opening))
    return found


def begun(first: str, rest: list[Exchange]) -> tuple[str, tuple[Picture, ...], list[Exchange]]:
    """The first message with what was called before the model's first turn, the pictures of that, and the rest."""
    if not rest or not rest[0].opening:
        return first, (), rest
    asked = rest[0].asked
    # Without arguments: some of their words are another role's, or of a card.
    told = [f"## {one.call.name}\n{said_of(one)}" for one in asked]
    pictures = tuple(picture for one in asked for picture in one.pictures)
    return "\n\n".join([first, "# Called for you already", *told]), pictures, rest[1:]


def said_of(asked: Asked) -> str:
    """The answer, for protocols that have no flag for a failed call."""
    return asked.answer if asked.ok else f"Error: {asked.answer}"


def shown(rest: list[Exchange], blind: str) -> list[Exchange]:
    """With a line in place of the pictures that the model is not shown: of all where `blind` says why, else of those of
    long ago. These go for several turns at once, so that most turns send the same beginning as the one before."""
    past = len(rest) if blind else max(0, len(rest) // SHOWN - 1) * SHOWN
    return [
        # The first message stays as it is: all behind it would be new to a cache.
        one
        if one.opening and not blind
        else replace(one, asked=tuple(_unseen(each, one.number, blind) for each in one.asked))
        for one in rest[:past]
    ] + (rest[past:])


def _unseen(asked: Asked, turn: int, blind: str) -> Asked:
    if not asked.pictures:
        return asked
    ago = f"The picture was shown at turn {turn}; view_image shows it again."
    why = f"You are not shown it: {blind}." if blind else ago
    return replace(asked, answer=f"{asked.answer}\n({why})", pictures=())


def read_arguments(raw: object) -> dict[str, JsonValue]:
    """Arguments as a model wrote them, or as a server has parsed them already. Of what is no JSON object the beginning
    is kept under `_unparsed`; nothing at all means none."""
    try:
        arguments = json.loads(raw, parse_constant=_no_number) if isinstance(raw, str) and raw.strip() else raw or {}
    except (ValueError, RecursionError):
        return unread(raw)
    return arguments if isinstance(arguments, dict) and not _deep(arguments) else unread(raw)


def unread(raw: object) -> dict[str, JsonValue]:
    return {UNPARSED: str(raw)[:UNREAD]}


def _deep(value: object, level: int = 1) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(level >= DEEPEST or _deep(one, level + 1) for one in inner)


def sound(value: Any) -> Any:
    """A reply's texts without half characters, which nothing could write down."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {sound(key): sound(one) for key, one in value.items()}
        case list():
            return [sound(one) for one in value]
        case _:
            return value


def cut_off(why: str) -> str:
    return f"[Your last reply was cut off: {why}. Write less in one turn: split long files over several calls.]"


def estimated(request: dict[str, Any], reply: str) -> tuple[int, int]:
    """Tokens in and out, for endpoints that do not count: bytes / 4, and so many a picture."""
    text, pictures = _BASE64.subn("", json.dumps(request))
    return len(text) // 4 + pictures * PICTURE_TOKENS, len(reply.encode()) // 4


def fitted(rest: list[Exchange], room: int, also: int) -> list[Exchange]:
    """The exchanges with the oldest results of tools, and texts in calls, cut to a line, where a request would be over
    `room` tokens.

    `also` is the size in characters of what else the request holds. The newest exchange stays whole. What is cut grows
    in steps of a quarter of the room, so that most turns send the same beginning as the one before.
    """
    room *= CHARACTERS
    over = also + sum(map(_size, rest)) - room
    if over <= 0:
        return rest
    step = max(1, room // 4)
    due = -(-over // step) * step
    kept = []
    for number, one in enumerate(rest):
        asked = []
        for each in one.asked:
            if due > 0 and number < len(rest) - 1:
                less = _short(each)
                due -= _weight(each) - _weight(less)
                each = less
            asked.append(each)
        kept.append(replace(one, asked=tuple(asked)))
    return kept


def _short(asked: Asked) -> Asked:
    answer, pictures = asked.answer, asked.pictures
    if len(answer) > SHORT or pictures:
        gone = f"[{len(answer)} characters, left out for want of room; call again if they are needed]"
        answer, pictures = gone, ()
    return replace(
        asked,
        call=asked.call.model_copy(update={"arguments": _brief(asked.call.arguments)}),
        answer=answer,
        pictures=pictures,
    )


def _brief(value: Any) -> Any:
    match value:
        case str() if len(value) > SHORT:
            return f"{value[:SHORT]} [and {len(value) - SHORT} characters more, left out for want of room]"
        case dict():
            return {key: _brief(one) for key, one in value.items()}
        case list():
            return [_brief(one) for one in value]
        case _:
            return value


def _weight(asked: Asked) -> int:
    return len(asked.answer) + len(repr(asked.call.arguments)) + len(asked.pictures) * PICTURE_TOKENS * CHARACTERS


def _size(one: Exchange) -> int:
    """In characters."""
    return len(repr(one)) + sum(len(each.pictures) for each in one.asked) * PICTURE_TOKENS * CHARACTERS


def _answer(call: Call, result: ToolResult | None) -> str:
    if result is None:
        return "no result is on record"
    if UNPARSED in call.arguments:
        return f"the arguments were no complete JSON object, so the call was not made; {result.summary}"
    if not result.summary.strip():
        return "(only white space)"
    accepted = result.ok and result.tool not in TOOLS
    return result.summary if accepted else fenced(result.summary)


def _remarks(observation: Observation) -> str:
    """Notes and events as text. A check's problems stand in the submission's result too, and are said once."""
    told = [result.summary for result in observation.results]
    parts = [note for note in observation.notes if not any(note in summary for summary in told)]
    # The ends of several jobs stand in a table among the notes.
    if observation.event is not None and "jobs" not in observation.event:
        parts.append(_event(observation.event))
    parts.append(observation.budget)
    return "\n\n".join(part for part in parts if part.strip())


def _event(event: Mapping[str, JsonValue]) -> str:
    """Of the end of a job what no other line says: the summary has its figures in words."""
    told = {name: event[name] for name in ("job_id", "outcome", "summary", "bad_samples") if event.get(name)}
    return f"{event.get('kind', 'event')}:\n{fenced(as_text(told))}"


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
