"""What a run asks a person, and what was answered, in words."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from services.gateway.blocks import clean
from shared.contracts.base import Event
from shared.contracts.questions import Question, QuestionAnswered, QuestionAsked
from shared.contracts.state import fold

SHARED = 3
"""Options from which on what they say alike is said once."""
ADD = "m3builder dataset add DIR_OR_ARCHIVE --card FILE"
HELP = f"`{ADD}` adds one below a data root, with --upload from another machine; the run goes on once one fits"


@dataclass(frozen=True)
class Asked:
    """A question of a run; `answer` is None while it is open, or where something else ended it, as an added dataset."""

    event: QuestionAsked
    answer: QuestionAnswered | None

    @property
    def told(self) -> str:
        if self.answer is None:
            return f"{self.event.question.key}: not answered"
        return clean(f"{self.answer.key}: {self.answer.value} ({_who(self.answer)})")


def asked(events: Sequence[Event]) -> list[Asked]:
    """All questions of a run in their order."""
    answers = {event.caused_by: event for event in events if isinstance(event, QuestionAnswered)}
    return [Asked(event, answers.get(event.event_id)) for event in events if isinstance(event, QuestionAsked)]


def answered(event: QuestionAnswered) -> str:
    return clean(f"{event.key} answered with {event.value} ({_who(event)})")


def options(question: Question, width: int = 250) -> str:
    """A numbered line an option with what it says; the default is marked. Many that say the same share a line, last."""
    many = Counter(option.says for option in question.options if option.says)
    wide = max((len(one.value) for one in question.options if many[one.says] < SHARED), default=0)
    lines: list[str] = []
    alike: dict[str, list[str]] = {}
    for number, option in enumerate(question.options, 1):
        says = option.says + (" (default)" if option.value == question.default else "")
        if many[says] >= SHARED:
            alike.setdefault(says, []).append(f"{number} {clean(option.value)}")
            continue
        head = f"  {number:>2}  {clean(option.value):<{wide}}  "
        lines.append(_filled(head + clean(says), width, min(len(head), 40)))
    lines += [_filled(f"      {clean(says)}: {', '.join(values)}", width, 10) for says, values in alike.items()]
    return "\n".join(lines)


def _filled(text: str, width: int, room: int) -> str:
    return textwrap.fill(text, width, subsequent_indent=" " * room, break_on_hyphens=False).rstrip()


def how(run_id: str, question: Question) -> str:
    """The command that answers."""
    command = f"m3builder answer {run_id} {question.key}"
    if question.wants == "dataset":
        return f"  take one with `{command} DATASET`, or add another:\n  {HELP}"
    if question.options:
        return f"  answer with `{command} {clean('|'.join(question.values))}`"
    return f"  answer with `{command} TEXT`" + (f" (default: {clean(question.default)})" if question.default else "")


def told(question: Question, width: int = 250) -> str:
    """The question and its options, a little to the right."""
    text = textwrap.fill(
        clean(question.text), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    return "\n".join(part for part in (text, options(question, width)) if part)


def whole(run_id: str, question: Question, width: int = 250) -> str:
    """The question, its options and how to answer."""
    return f"{told(question, width)}\n{how(run_id, question)}"


def waiting(events: Sequence[tuple[int, Event]], width: int = 250) -> str:
    """The open question in whole while a run waits, else nothing."""
    state = fold(events[0][1].run_id, events) if events else None
    if state is None or state.question is None or state.finished:
        return ""
    question = state.question.question
    return f"The run waits for an answer to {question.key}:\n{whole(state.run_id, question, width)}\n"


def _who(answer: QuestionAnswered) -> str:
    return "by default, nobody was asked" if answer.by == "default" else f"by {answer.by or 'a person'}"
