"""Which proposals are alternatives that a person must settle, and which one is simply the best."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from shared.dataset.propose.draft import Draft
from shared.dataset.propose.tables import shared_ends
from shared.dataset.survey.sides import mirrored
from shared.dataset.tables.words import stems, wanted, words

NEAR = {"image": 0.05, "label": 0.07, "mask": 0.07, "text": 0.05, "patient": 0.05}
"""Decision -> how close in score two proposals are that explain a dataset equally."""


_MIRRORED = 0.3
"""The same of a column of the left and one of the right side: however many images have a value, neither is of both."""


class Scored(Protocol):
    @property
    def draft(self) -> Draft: ...
    @property
    def score(self) -> float: ...


T = TypeVar("T", bound=Scored)


def with_questions(tried: Sequence[T], answers: Mapping[str, str], target: str = "") -> list[tuple[T, str, str]]:
    """Each with `key` and `choice`; both empty but for the best and its rivals, which differ in one decision. The one
    of them that the request (`target`) names by a word of its own needs no question."""
    if not tried:
        return []
    best = tried[0]
    for key, near in NEAR.items():
        if key in answers or key not in best.draft.decisions:
            continue
        # One that decides nothing of it could not be named as a choice.
        mine = best.draft.decisions[key]
        able = [
            one for one in tried[1:]
            if (other := one.draft.decisions.get(key)) is not None
            and best.score - one.score < (_MIRRORED if mirrored(mine, other) else near)
        ]  # fmt: skip
        each = {one.draft.decisions[key]: one for one in reversed(able) if _differ(best.draft, one.draft) == {key}}
        rivals = sorted(each.values(), key=lambda one: -one.score)  # of two with one choice the better
        if rivals:
            asked = [best, *rivals]
            rest = [one for one in tried if all(one is not other for other in asked)]
            if len(named := _named([one.draft.decisions[key] for one in asked], target)) == 1:
                first = asked.pop(named[0])
                return [(one, "", "") for one in (first, *asked, *rest)]
            return [(one, key, one.draft.decisions[key]) for one in asked] + [(one, "", "") for one in rest]
    return [(one, "", "") for one in tried]


def _named(choices: Sequence[str], target: str) -> list[int]:
    """Which choices the request names by most words that not all of them have."""
    head, tail = map(len, shared_ends(choices))  # the file of two columns may have the name of one of them
    known = [_tokens(choice[head : len(choice) - tail]) for choice in choices]
    common = set.intersection(*known)
    asked = _tokens(wanted(target)[0])
    named = [len((own - common) & asked) for own in known]
    return [place for place, many in enumerate(named) if many == max(named) > 0]


def _tokens(text: str) -> set[str]:
    """Words, and numbers with the word before them: `expert 1`."""
    own = words(text)
    return stems(own) | {f"{word} {number}" for word, number in pairwise(own) if number.isdecimal()}


def _differ(one: Draft, other: Draft) -> set[str]:
    return {key for key in one.decisions | other.decisions if one.decisions.get(key) != other.decisions.get(key)}
