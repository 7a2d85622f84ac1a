"""A conversation as it leaves, and a model's decision as it is recorded."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from shared.agent.brief import Brief
from shared.agent.core import Decision
from shared.agent.dialogue import Asked, Exchange, exchanges, rounds, shown
from shared.agent.prompt import opening
from shared.contracts.disclosure import Disclosed
from shared.contracts.tools import Picture, ReadFiles
from shared.contracts.transcript import OPENING, Call, Observation, Turn
from shared.disclosure.guard import Guard
from shared.disclosure.public import classes
from shared.errors import ToolBroken

_COUNTED = re.compile(r"(?<![\w.])\d+(?= x \S| rows of | of \d| s\b)")
"""Numbers in what our programs say of files and of a budget."""
OURS = ("/m3/", "/templates/")
"""What lies below is written by us."""


class Outgoing:
    """A role's work on an order as it leaves: brief and dialogue without what may not. The same entries always give the
    same."""

    def __init__(self, brief: Brief, core: str, blind: str = "") -> None:
        if not brief.secret:
            raise ToolBroken(f"{core} is outside of the hospital, and the run has no secret to make surrogates with")
        self.brief, self._core, self._blind = brief, core, blind
        self._turn, self._role = 0, brief.role
        self._sees = sees = _sees_raw(brief)
        # Who works alone goes on from cards to the data.
        card = brief.role == "task_manager" and "collaboration" not in brief.requested.without
        self.guard = Guard(brief.secret, _public(brief), _written(brief), raw=sees, card=card)
        measured = _measured(brief)
        if not sees:  # what another role knows by surrogates it may have written into files
            for text in _written(brief):
                self.guard.hide(text, measured=measured)
        self.first = self.guard.hide(opening(brief), measured=measured)
        self._all: list[Exchange] = []

    def follow(self, segment: list[Turn | Observation]) -> None:
        """Add what was said since; what was there before is as it was."""
        self._turn, done = segment[-1].number + 1, len(self._all)
        self._role = segment[-1].role  # of a conversation that goes on, the one that says so
        told = zip(exchanges(segment)[done:], rounds(segment)[done:], strict=True)
        self._all += [self._exchange(one, turn) for one, (turn, _) in told]

    @property
    def rest(self) -> list[Exchange]:
        """The dialogue after the first message."""
        return shown(self._all, self._blind)

    @property
    def text(self) -> str:
        """Brief and dialogue, whatever the protocol makes of them; where room is short old results leave cut."""
        told = [asdict(one) for one in self.rest]
        return json.dumps([self.first, *told], ensure_ascii=False, indent=1, default=_plain)

    def disclosed(self) -> Disclosed:
        """What goes on record."""
        text = self.text.encode("utf-8", "replace")
        return Disclosed(
            run_id=self.brief.run_id, role=self._role, turn=self._turn, at=datetime.now(UTC), core=self._core,
            sha256=hashlib.sha256(text).hexdigest(), size=len(text), hidden=dict(sorted(self.guard.counts.items())),
            surrogates=self.guard.surrogates, blind=self._blind,
            pictures=sum(len(asked.pictures) for one in self.rest for asked in one.asked),
        )  # fmt: skip

    def restored(self, decision: Decision) -> Decision:
        """The decision with what its surrogates stand for: what is carried out, and what the transcript keeps."""
        hidden: set[str] = set()

        def back(text: str) -> str:
            told, found = self.guard.back(text)
            hidden.update(found)
            return told

        calls = tuple(call.model_copy(update={"arguments": _through(call.arguments, back)}) for call in decision.calls)
        return replace(decision, text=back(decision.text), calls=calls, hidden=tuple(sorted(hidden)))

    def _exchange(self, one: Exchange, turn: Turn) -> Exchange:
        def say(text: str) -> str:
            # What another core said, this endpoint does not know yet.
            return self.guard.said(text, turn.hidden) if turn.core == self._core else self.guard.hide(text)

        text = say(one.text)
        calls: list[Call] = [
            asked.call.model_copy(update={"arguments": _through(asked.call.arguments, say)}) for asked in one.asked
        ]
        asked = tuple(
            replace(asked, call=call, answer=self._answer(asked, turn), pictures=self._pictures(asked))
            for asked, call in zip(one.asked, calls, strict=True)
        )
        # Reasoning is in nobody's form but its maker's, who may have seen the data as they are.
        kept = one.kept if turn.core == self._core else None
        return replace(one, text=text, asked=asked, remarks=self.guard.hide(one.remarks, self._sees), kept=kept)

    def _answer(self, asked: Asked, turn: Turn) -> str:
        read = asked.call.arguments.get("paths") if asked.call.name == ReadFiles.tool else None
        paths = [str(one) for one in read] if isinstance(read, list | tuple) else []
        # An answer repeats its paths, which may be real by now.
        told = turn.core in (self._core, OPENING) and not any(one in path for path in paths for one in turn.hidden)
        if told and paths and all(one.startswith(OURS) and ".." not in one for one in paths):
            return asked.answer
        return self.guard.hide(asked.answer, self._sees)

    def _pictures(self, asked: Asked) -> tuple[Picture, ...]:
        return tuple(one.model_copy(update={"name": self.guard.hide(one.name)}) for one in asked.pictures)


def refuse_pictures(request: Any, core: str) -> None:
    """Raises ToolBroken where a request holds a picture: nothing of this package can make one harmless."""
    if isinstance(request, dict):
        if request.get("type") in ("image", "image_url", "input_image"):
            raise ToolBroken(f"a picture was about to go to {core}, which is outside of the hospital: nothing was sent")
        request = list(request.values())
    for one in request if isinstance(request, list) else ():
        refuse_pictures(one, core)


def _sees_raw(brief: Brief) -> bool:
    """Whether a role's results may hold what stands in the data: behind the lock only reports do."""
    plan = brief.planned.plan if brief.planned else None
    return brief.role in ("task_manager", "data_engineer") or plan is None or plan.task == "report_generation"


def _public(brief: Brief) -> set[str]:
    found = set(brief.public)
    if brief.prepared:
        found |= classes(brief.prepared.coverage.counts)
    if brief.locked:
        found |= classes(sum(map(Counter, brief.locked.counts.values()), Counter()))
        found.update(brief.locked.facts.channels)  # of all cases
    return found


def _measured(brief: Brief) -> set[str]:
    """Numbers of the brief that programs of ours measured, by their digits before a point. What stands in a text is
    somebody's: a card's, a cell's, another role's."""
    cards = [*brief.cards, *([brief.planned.card] if brief.planned else [])]
    parts = [*(card.profile for card in cards), brief.locked, brief.assembled, *brief.weights]
    told = [part.model_dump(mode="json") for part in parts if part]
    found = set(_numbers([*told, brief.files, brief.machine, brief.train_seconds]))
    listed = [brief.files.get("groups"), brief.files.get("tables")]
    ours = [brief.budget, *(str(one) for many in listed if isinstance(many, list) for one in many)]
    return found.union(*(_COUNTED.findall(one) for one in ours))


def _numbers(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield f"{abs(value):.0f}" if math.isfinite(value) else ""
        yield str(abs(value)).partition(".")[0]


def _written(brief: Brief) -> list[str]:
    cards = [*brief.cards, *([brief.planned.card] if brief.planned else [])]
    told = [brief.planned.plan.reason, *brief.planned.plan.instructions.values()] if brief.planned else []
    told += [brief.assembled.module.notes] if brief.assembled else []
    return [brief.requested.requirement, *told, *(card.description for card in cards), *brief.answers.values()]


def _through(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {change(key): _through(one, change) for key, one in value.items()}
        case list() | tuple():
            return [_through(one, change) for one in value]
        case _:
            return value


def _plain(value: Any) -> JsonValue:
    if isinstance(value, Picture):
        seen = hashlib.sha256(value.content.encode()).hexdigest()
        return {"picture": value.name, "media_type": value.media_type, "base64": len(value.content), "sha256": seen}
    return value.model_dump(mode="json")  # type: ignore[no-any-return]
