"""What a person is asked, and answers: a dataset, a column, an approval, more budget. One mechanism for all of it."""

from typing import Literal

from pydantic import Field

from shared.contracts.base import Contract, Event, Spent, Token

Wants = Literal["choice", "text", "dataset", "approval"]
Point = Literal["plan", "split", "release"]
POINTS: tuple[Point, ...] = ("plan", "split", "release")
"""Where a run may need an approval before it goes on, in the order in which they are reached."""

DATASET = "dataset"
"""The key of every question that wants a dataset: a run has one, and its answer is the one to take."""

YES, UNSAID, NO = "yes", "unsaid", "no"
MORE, END = "continue", "end"
"""Answers to `approve-<point>` and `more-<bound of the budget>`; with UNSAID the run goes on, and nobody vouches."""


def approve(point: Point) -> str:
    """The key of the question whether a run may go on from `point`."""
    return f"approve-{point}"


def more(bound: str) -> str:
    """The key of the question whether more of a bound of the budget may be spent."""
    return f"more-{bound}"


class Option(Contract):
    """One of the answers: `value` is what is answered, `says` what it means and what speaks for or against it."""

    value: str = Field(min_length=1, max_length=200)
    says: str = ""


class Question(Contract):
    """What a person is asked, and how it can be answered."""

    key: Token
    text: str = Field(min_length=1, max_length=4000)
    options: tuple[Option, ...] = ()
    default: str | None = None
    wants: Wants = "choice"

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(option.value for option in self.options)


class AskedByRole(Question):
    """Ask a person the one thing that decides how to go on and that request, documents and files leave open.

    The run waits; then your work begins anew, with all answers under `answers` and your workspace as it was. `text`
    says what you saw and why it matters; `key` is a new short name; `says` the reason for an option; `default` what an
    unattended run takes (it ends where there is none). Only the Task Manager wants a `dataset`. Never ask what you can
    find out.
    """

    wants: Literal["choice", "text", "dataset"] = "choice"


class QuestionAsked(Event):
    """A role, or the keeper in the Task Manager's service, asks a person; the run waits."""

    kind: Literal["QuestionAsked"] = "QuestionAsked"
    question: Question
    spent: Spent = Spent()


class QuestionAnswered(Event):
    """The answer to the open question, which is its cause. `by` is who gave it; `default` when nobody was there."""

    kind: Literal["QuestionAnswered"] = "QuestionAnswered"
    key: Token
    value: str = Field(min_length=1, max_length=4000)
    by: str = ""
