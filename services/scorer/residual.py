"""What a Data Engineer, who sees test labels, could still say of test cases to the roles behind the lock. Pure."""

import json
import math
import re
from dataclasses import dataclass

from pydantic import JsonValue

from services.scorer.lock.left_out import left_by_rules
from shared.contracts.cases import CaseTable
from shared.contracts.data import DatasetFacts
from shared.contracts.rules import Excluded, Images, LabelRule, MaskRule, Rules, Source, SplitRule, Table, TextRule

BYTE = 8.0
"""Bits of a character that somebody wrote, of a `{field}`, and of the end of a text."""
_PARTS = (Rules, Images, Source, Table, LabelRule, MaskRule, TextRule, SplitRule, Excluded)
_OURS = frozenset(name for part in _PARTS for name in part.model_fields)
FIELD = 5.0
"""Bits of which field of a part of the rules comes next, or that none does; no part has more than 31."""


@dataclass(frozen=True)
class Residual:
    bits: dict[str, float]
    """Way -> bits, of all locks together."""
    cases: int
    """Of which the bits would have to speak."""

    @property
    def a_case(self) -> float:
        return sum(self.bits.values()) / max(1, self.cases)

    @property
    def said(self) -> str:
        ways = ", ".join(f"{way} {bits:.0f}" for way, bits in self.bits.items())
        # What a script chooses as the image of a case is not counted.
        bound = "At least" if "script" in self.bits else "At most"
        return (
            f"{bound} {self.a_case:.2f} bits a case could have been carried past the lock by whoever wrote the rules, "
            f"by the length of what they wrote or left out ({ways}; to be spread over {self.cases} cases)."
        )


def residual(table: CaseTable, facts: DatasetFacts, words: str, locks: int, test: int) -> Residual:
    """An upper bound: the length in bits of a code in which everything that can differ may be written down.

    - left out: any `k` of `n` cases, so log2 of `n` over `k`; only what the rules, or a handing back, left out.
    - names: of classes, structures and channels. One that stands in the request or card (`words`) is a choice among
      their words; any other is `BYTE` a byte.
    - rules: their whole text. Whatever they say of a case follows from it, so it cannot say more than its length.
    - script: a class and a patient for each case, since a script may list any; here it is no upper bound.

    Every further lock, after work was returned, may choose anew. The split comes from a secret seed, so the sender does
    not know which cases are tested and has to speak of all; of a split that came with the dataset, of the `test` cases.
    """
    cases, classes = len(table.cases), max(2, len(facts.label_names))
    gone = left_by_rules(table.coverage) + sum(map(len, table.left_out.values()))
    ways = math.lgamma(cases + gone + 1) - math.lgamma(cases + 1) - math.lgamma(gone + 1)
    bits = {"left out": ways / math.log(2), "names": _names(facts, words)}
    if table.by_script:
        bits["script"] = cases * (math.log2(classes) + math.log2(max(2, table.coverage.patients)))
    elif table.rules:
        # The task is the plan's, and what was left out is counted above.
        said = table.rules.model_dump(mode="json", exclude_defaults=True, exclude={"task", "leave_out"})
        bits["rules"] = _written(said, frozenset(re.findall(r"\{(\w+)\}", json.dumps(said))))
    addressed = cases if facts.split_from == "made" else test
    return Residual({way: locks * many for way, many in bits.items()}, addressed)


def _names(facts: DatasetFacts, words: str) -> float:
    known = set(re.findall(r"\w+", words.casefold()))
    choice = math.log2(max(2, len(known)))
    names = (*facts.label_names, *facts.channels)
    return sum(
        sum(choice if word in known else BYTE * len(word.encode()) for word in re.findall(r"\w+", name.casefold()))
        for name in names
    )


def _written(value: JsonValue, fields: frozenset[str]) -> float:
    """Of a value of the rules, in which the patterns have these `{fields}`."""
    if isinstance(value, dict):
        named = (FIELD + (0 if key in _OURS else _text(key, fields)) for key in value)
        return FIELD + sum(named) + sum(_written(one, fields) for one in value.values())
    if isinstance(value, list):
        return FIELD + sum(FIELD + _written(one, fields) for one in value)
    return _text(value, fields) if isinstance(value, str) else BYTE * len(json.dumps(value))


def _text(text: str, fields: frozenset[str]) -> float:
    if text in fields:
        return BYTE
    rest, known = re.subn(r"\{\w+\}", "", text)
    return BYTE * (known + len(rest.encode()) + 1)
