"""What a Data Engineer, who sees test labels, could still say of test cases to the roles behind the lock. Pure."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from typing import TypeAlias

from pydantic import JsonValue

from shared.contracts.cases import CaseTable, Coverage, Proposal
from shared.contracts.rules import Excluded, Images, LabelRule, MaskRule, Rules, SplitRule, TextRule, Views
from shared.contracts.scoring import Gate
from shared.contracts.values import Source, Table
from shared.dataset.tables.narrowing import narrowed

GATE = "rules_say_little"
BOUND = 1.0
"""Bits a case from which on a score is at most valid: they could tell one class from all others of every case."""
BYTE = 8.0
"""Bits of a byte that somebody wrote, and of the end of a text; 13 values that no text has stand for other things."""
_PARTS = (Rules, Images, Source, Table, LabelRule, MaskRule, TextRule, SplitRule, Excluded, Views)
_OURS = frozenset(name for part in _PARTS for name in part.model_fields)
FIELD = math.log2(len(_OURS))
"""Bits of a name of a field of the rules' parts."""
KIND = math.log2(5)
"""Bits of what a token is: a key, an entry, the end of a part, a text or another value."""
_FIELD = re.compile(r"\{(\w+)\}")
_COMPARED = 4_000_000
"""Tokens of a proposal times tokens of rules up to which they are compared one by one: hostile rules are long."""

_RUN = 4
"""Words of request and card, next to each other, of which a name may be made: right_ventricle."""

Token: TypeAlias = tuple[str, str]
"""`key`, `entry`, `end`, `text` or `value`, and what it says."""


@dataclass(frozen=True)
class Known:
    """Texts that are a choice among few."""

    said: frozenset[str]
    runs: frozenset[str]

    def bits(self, text: str, fields: frozenset[str] = frozenset()) -> float:
        """Of which kind it is, and which; what is neither is written out."""
        if text in self.said:
            return 1 + math.log2(len(self.said))
        return 2 + (math.log2(len(self.runs)) if text in self.runs else _text(text, fields))


@dataclass(frozen=True)
class Residual:
    bits: dict[str, float]
    """Way -> bits, of all locks together."""
    cases: int
    """Of which the bits would have to speak."""

    @property
    def a_case(self) -> float:
        return sum(self.bits.values()) / max(1, self.cases)

    def gate(self, approved: bool = False) -> Gate:
        """Caps the level, unless a person has `approved` what was written; of a script's list nobody can say so."""
        ways = ", ".join(f"{way} {bits:.0f}" for way, bits in self.bits.items())
        # What a script chooses as the image of a case is not counted.
        bound = "At least" if "script" in self.bits else "At most"
        evidence = (
            f"{bound} {self.a_case:.2f} bits a case could have been carried past the lock by whoever wrote the rules, "
            f"by what they wrote or chose beyond the rules that the search proposes ({ways}; to be spread over "
            f"{self.cases} cases)"
        )
        approved = approved and "script" not in self.bits
        if self.a_case >= BOUND:
            evidence += f"; from {BOUND:g} on they could have told the answers of test cases"
            evidence += ", but a person has approved the split and with it the rules" * approved
        return Gate(name=GATE, passed=self.a_case < BOUND or approved, evidence=evidence)


def residual(tables: Sequence[CaseTable], words: str, cases: int, asked: str = "") -> Residual:
    """An upper bound: the length in bits of a code in which everything that can differ may be written down.

    Who reads the code knows all that the Data Engineer cannot change: the files, request and card (`words`), and what
    trusted code proposes as rules without a word of it (`CaseTable.proposals`). The code says of each of the `tables`,
    one for each lock, since every further one may choose anew:

    - rules: in one bit, whether they are the first proposal. If not: which of the proposals they begin with, or none;
      or to which of the names that these tell apart the search was limited (a bit where that is what the request,
      `asked`, says), and which of its proposals then. Then what differs, in the shorter of two ways. In their text:
      where in the proposal, how many of its tokens go, and what stands there instead, written out. A text that is in
      a proposal, is a name that one tells apart, a value of a field with few of them, or a word of request and card is
      a choice among these, and so is a name made of up to four neighbouring words of these two. Whatever rules say of a
      case follows from them and the files, so it cannot be more than that: cases that they leave out and names, too. Or
      in their cases (`Apart`): which are absent, have another label, are of another patient, and what classes are
      called. Only the cases, and the few words and numbers that are told beside them, go behind the lock, so rules that
      find the same say the same, however they are written.
    - handed back: of the cases that the rules find any that the Data Engineer says were handed back.
    - script: a class and a patient for each case, since a script may list any, the names of classes letter by letter,
      and which cases there are; here it is no upper bound.

    A code of two parts, a model and what differs from it, bounds what is said by its length (Rissanen's minimum
    description length, 1978); each choice between ways of saying it is a part of the code.

    `cases` is of how many it has to speak: the split comes from a secret seed, so of all, since the sender does not
    know which are tested; of a split that came with the dataset, of the tested ones.
    """
    bits: defaultdict[str, float] = defaultdict(float)
    for table in tables:
        if table.by_script:
            bits["script"] += _script(table)
        elif table.rules:
            bits["rules"] += _rules(table, table.rules, words, asked)
            found = table.coverage.cases
            bits["handed back"] += _subset(max(found, len(table.cases)), len(table.rules.leave_out))
    return Residual(dict(bits), cases)


def _script(table: CaseTable) -> float:
    names = table.coverage.label_names
    chosen = math.log2(max(2, len(names))) + math.log2(max(2, table.coverage.patients))
    files = max(table.coverage.files, len(table.cases))
    return len(table.cases) * chosen + sum(BYTE * len(name.encode()) for name in names) + _subset(files, files)


def _subset(many: int, most: int) -> float:
    """Bits to say which of `many`, if `most` at most: whether any, how many, and one of the ways."""
    most = min(most, many)
    size = min(most, many // 2)
    ways = math.lgamma(many + 1) - math.lgamma(size + 1) - math.lgamma(many - size + 1)
    return 1 + (math.log2(many + 1) if most else 0) + ways / math.log(2)


def _rules(table: CaseTable, rules: Rules, words: str, asked: str) -> float:
    names = {name for one in table.proposals for name in one.coverage.label_names}
    said = frozenset({*names, *_choices(), *re.findall(r"\w+", words), *_texts(table.proposals)})
    known = Known(said, _runs(words))
    # A bit says whether it is what trusted code reads from the request.
    limit = 1 + (0 if _as_asked(table, asked) else _subset(len(names), len(table.coverage.label_names)))
    written = _tokens(_plain(rules))

    def shortest(begun: Sequence[Proposal], known: Known) -> float:
        texts = [_changed([], written, known), *(_changed(_written(one), written, known) for one in begun)]
        return math.log2(1 + 2 * len(begun)) + min(*texts, *(_told(one, table, known) for one in begun), math.inf)

    if any(_as_it_is(one, table, written) for one in table.proposals[:1]):
        return 1
    limited = limit + shortest(table.limited, replace(known, said=said | _texts(table.limited)))
    return 2 + min(shortest(table.proposals, known), limited)


def _as_asked(table: CaseTable, asked: str) -> bool:
    """Whether the names that rules tell apart are those that the request, which names or limits some, wants."""
    if not table.proposals or not asked:
        return False
    task, names = table.coverage.task, table.proposals[0].coverage.label_names
    wanted = narrowed(asked, names, masks=task != "diagnosis", lesions=task == "anomaly_detection")
    return set(wanted) == set(table.coverage.label_names)


def _as_it_is(proposal: Proposal, table: CaseTable, written: list[Token]) -> bool:
    """Whether nothing differs, in the text or in the cases and what is told beside them."""
    one = proposal.apart
    alike = one is not None and not (one.absent or one.renamed or one.relabelled or one.regrouped or one.no_split)
    return written == _written(proposal) or (alike and _beside(proposal.coverage) == _beside(table.coverage))


def _written(proposal: Proposal) -> list[Token]:
    return _tokens(_plain(Rules.model_validate(proposal.rules)))


def _texts(proposals: Sequence[Proposal]) -> set[str]:
    return {said for one in proposals for _, said in _written(one)}


def _runs(words: str) -> frozenset[str]:
    """Names that could be made of words which stand next to each other."""
    found = set()
    for text in (words, words.lower()):
        each = re.findall(r"\w+", text)
        for size in range(2, _RUN + 1):
            parts = [each[start : start + size] for start in range(len(each) - size + 1)]
            found |= {joint.join(part) for part in parts for joint in ("_", " ", "-")}
    return frozenset(found)


def _told(proposal: Proposal, table: CaseTable, known: Known) -> float:
    """Bits of what makes the cases of `table`, and what is told beside them, of those of the proposal."""
    one = proposal.apart
    if one is None or not one.renamed.keys() <= set(proposal.coverage.label_names):
        return math.inf
    bits = _changed(_beside(proposal.coverage), _beside(table.coverage), known)
    bits += 2  # whether the split goes, and whether anything is called otherwise
    if one.renamed:
        bits += len(proposal.coverage.label_names) + sum(map(known.bits, one.renamed.values()))
    left = one.cases - one.absent
    bits += _subset(one.cases, one.absent) + _subset(left, one.relabelled) + _subset(left, one.regrouped)
    # Somebody who moves goes to the patient of another case, or is said to go to the own one and is alone.
    return bits + one.relabelled * math.log2(max(1, one.labels)) + one.regrouped * math.log2(max(1, left))


def _beside(coverage: Coverage) -> list[Token]:
    """What later roles are told that does not follow from the cases (`services.scorer.lock.facts`)."""
    said = [coverage.grouping, *coverage.channels, *(coverage.label_names if coverage.ordered else ())]
    counts = (sum(coverage.lossless.values()), coverage.lost)
    return [*(("text", one) for one in said), *(("value", str(count)) for count in counts)]


@cache
def _choices() -> frozenset[str]:
    """What may stand in fields of the rules that have a few values only."""
    return frozenset(
        re.findall(r"'(\w+)'", " ".join(str(one.annotation) for part in _PARTS for one in part.model_fields.values()))
    )


def _plain(rules: Rules) -> JsonValue:
    """Without the task, which is the plan's, and what is counted as handed back."""
    said: JsonValue = rules.model_dump(mode="json", exclude_defaults=True, exclude={"task", "leave_out"})
    return said


def _tokens(value: JsonValue) -> list[Token]:
    return list(_each(value))


def _each(value: JsonValue) -> Iterator[Token]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield "key", key
            yield from _each(one)
        yield "end", ""
    elif isinstance(value, list):
        for one in value:
            yield "entry", ""
            yield from _each(one)
        yield "end", ""
    elif isinstance(value, str):
        yield "text", value
    else:
        yield "value", json.dumps(value)


def _changed(begun: list[Token], written: list[Token], known: Known) -> float:
    """Bits of what makes `written` of `begun`: a bit before each change and one at the end."""
    place = math.log2(len(begun) + 1)
    before, after = _fields(begun), _fields(written)
    # Once written, a new field's name is a choice among these.
    bits = 1 + sum(BYTE * (len(name.encode()) + 1) for name in after - before)
    for gone, tokens in _differing(begun, written):
        bits += 1 + place + _number(gone) + _number(len(tokens))
        bits += sum(KIND + _bits(token, after, known) for token in tokens)
    return bits


def _differing(begun: list[Token], written: list[Token]) -> list[tuple[int, list[Token]]]:
    """How many tokens of `begun` go and what stands there instead, for each part that differs."""
    if len(begun) * len(written) > _COMPARED:
        return [] if begun == written else [(len(begun), written)]
    found = SequenceMatcher(None, begun, written, autojunk=False).get_opcodes()
    return [(last - first, written[start:end]) for what, first, last, start, end in found if what != "equal"]


def _number(number: int) -> float:
    """Bits of any number from 0 on (Elias gamma)."""
    return 2 * (number + 1).bit_length() - 1


def _fields(tokens: Sequence[Token]) -> frozenset[str]:
    """Names that stand in braces."""
    return frozenset(name for _, said in tokens for name in _FIELD.findall(said))


def _bits(token: Token, fields: frozenset[str], known: Known) -> float:
    """Of one token, where its kind is known and the patterns have these `{fields}`."""
    kind, said = token
    if kind in ("entry", "end"):
        return 0.0
    if kind == "key" and said in _OURS:
        return 1 + FIELD
    if kind == "value":
        return BYTE * (len(said) + 1)
    return (kind == "key") + known.bits(said, fields)  # a bit tells a field from another key


def _text(text: str, fields: frozenset[str]) -> float:
    field = BYTE + math.log2(max(1, len(fields)))
    if text in fields:
        return field
    rest, braced = re.subn(r"\{\w+\}", "", text)
    return field * braced + BYTE * (len(rest.encode()) + 1)
