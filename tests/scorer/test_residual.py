"""Bits that whoever wrote the rules could have carried past the lock, a case: honest rules, and ways to say more."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations, product
from typing import Any

import pytest
from case_tables import by_rules, labelled, table

from services.scorer.residual import BOUND, Residual, residual
from services.tool_runner.intake.rules import read_rules
from shared.contracts.cases import Apart, CaseTable
from shared.contracts.rules import Rules

RULES: dict[str, Any] = {
    "task": "diagnosis", "dimensions": 2, "images": [{"files": ["{class}/{patient}_*.png"]}],
    "patient": {"field": "patient"},
    "label": {"source": {"field": "class"}, "classes": {"0": "normal", "1": "covid", "2": "other"}},
}  # fmt: skip
WORDS = "Tell covid from normal in chest films"
CASES = 200


def tables(rules: Mapping[str, Any], proposed: Sequence[Mapping[str, Any]] = (RULES,), **changes: Any) -> CaseTable:
    made = table(labelled(CASES), **{"label_names": ("covid", "normal", "other")} | changes)
    return by_rules(made, rules, proposed)


def bits(rules: Mapping[str, Any], proposed: Sequence[Mapping[str, Any]] = (RULES,), **changes: Any) -> Residual:
    return residual([tables(rules, proposed, **changes)], WORDS, CASES)


def test_rules_that_trusted_code_proposes_are_a_number() -> None:
    other = RULES | {"images": [{"files": ["{class}/*.png"]}], "patient": {"header": "PatientID"}}
    found = bits(RULES, [other, RULES, other | {"case": "folder"}])
    assert found.bits == {"rules": 2 + math.log2(1 + 2 * 3) + 1, "handed back": 1}
    assert found.gate().passed and found.a_case < 0.05
    assert "At most 0.03 bits a case" in found.gate().evidence and "spread over 200 cases" in found.gate().evidence
    assert bits(RULES, [RULES, other]).bits == {"rules": 1, "handed back": 1}, "nothing was chosen"
    # Of 60 cases, too; without the search their whole text counts, which is far above a bit.
    few = residual([tables(RULES)], WORDS, 60)
    assert few.a_case < 0.1 < BOUND < residual([tables(RULES, [])], WORDS, 60).a_case


def test_what_differs_from_a_proposal_is_counted_and_no_more() -> None:
    no_split = {name: one for name, one in RULES.items() if name != "patient"}
    assert bits(no_split).bits["rules"] < 30, "a part that is left out is a place"
    wanted = RULES | {"label": RULES["label"] | {"only": ["covid", "normal"]}}
    assert bits(wanted).bits["rules"] < 70 < bits(wanted, []).bits["rules"] / 5, "names that proposals tell apart"
    searched = tables(wanted).model_copy(update={"limited": tables(wanted, [wanted]).proposals})
    two = searched.coverage.model_copy(update={"label_names": ("covid", "normal")})
    searched = searched.model_copy(update={"coverage": two})
    # Whether limited, as the request says or not, to two of three names, the first of one, as it stands.
    unasked = residual([searched], WORDS, CASES).bits["rules"]
    assert unasked < 11
    by_request = residual([searched], WORDS, CASES, "covid and normal only").bits["rules"]
    assert by_request < unasked - 2 and residual([searched], WORDS, CASES, "covid only").bits["rules"] == unasked
    written = RULES | {"label": RULES["label"] | {"only": ["xq", "zw"]}}
    assert bits(written).bits["rules"] > bits(wanted).bits["rules"] + 20


def test_an_order_that_nobody_proposed_counts() -> None:
    def of(order: Sequence[str]) -> float:
        made = tables(RULES | {"label": RULES["label"] | {"order": order}}, [proposed], ordered=True, label_names=order)
        return residual([made], WORDS, CASES).bits["rules"]

    proposed = RULES | {"label": RULES["label"] | {"order": ["normal", "other", "covid"]}}
    assert of(["normal", "other", "covid"]) < 10 < math.log2(6) + 10 < of(["covid", "normal", "other"])
    same = Apart(cases=CASES)
    told = tables(RULES, [RULES], ordered=True, label_names=("other", "normal", "covid"))
    (one,) = told.proposals
    plain = one.model_copy(update={"apart": same, "coverage": one.coverage.model_copy(update={"ordered": False})})
    given = told.model_copy(update={"rules": Rules.model_validate(RULES | {"case": "series"}), "proposals": (plain,)})
    assert residual([given], WORDS, CASES).bits["rules"] > 10, "by what is told beside the cases, too"


TOLD = [(7 * n * n + n // 3) % 5 < 2 for n in range(CASES)]
"""A bit for each case, as somebody would tell it to the roles behind the lock."""
MESSAGE = "".join(str(int(one)) for one in TOLD)
DROPPED = [f"normal/p{n:03}_*.png" for n, one in enumerate(TOLD) if one]


def classes(named: Mapping[str, str | None]) -> dict[str, Any]:
    return RULES | {"label": RULES["label"] | {"classes": named}}


ATTACKS: dict[str, tuple[dict[str, Any], float]] = {
    "exclusions that match nothing": (
        RULES | {"exclude": [{"files": f"{n}", "reason": "x"} for n, one in enumerate(TOLD) if one]}, CASES,
    ),
    "a reason that says it": (RULES | {"exclude": [{"files": "none", "reason": MESSAGE}]}, CASES),
    "unused tables": (RULES | {"tables": {MESSAGE: {"file": "none.csv"}}}, CASES),
    "order of unused tables": (
        RULES | {"tables": {f"t{n * 77 % 101}": {"file": "none.csv"} for n in range(101)}},
        math.log2(math.factorial(101)),
    ),
    "a pattern with choices": (RULES | {"images": [{"files": ["{class}/{patient}_*.png", f"[{MESSAGE}]*"]}]}, CASES),
    "a part of a name": (RULES | {"patient": {"field": "patient", "part": f"(.*)(?#{MESSAGE})"}}, CASES),
    "a name of a field": (
        RULES | {"images": [{"files": [f"{{class}}/{{p{MESSAGE}}}_*.png"]}], "patient": {"field": f"p{MESSAGE}"}},
        CASES,
    ),
    "a channel": (RULES | {"images": [RULES["images"][0] | {"channel": MESSAGE}]}, CASES),
    "cases that are dropped by pattern": (
        RULES | {"exclude": [{"files": one, "reason": "blurred"} for one in DROPPED]},
        math.log2(math.comb(CASES, len(DROPPED))),
    ),
    "cases that are dropped as classes": (
        classes({f"scan{n}": None if one else "covid" for n, one in enumerate(TOLD)}), CASES,
    ),
    "cases that were never handed back": (
        RULES | {"leave_out": {f"key{n}": "" for n, one in enumerate(TOLD) if one}},
        math.log2(math.comb(CASES, len(DROPPED))),
    ),
    "names of classes": (classes({"0": MESSAGE[:100], "1": MESSAGE[100:], "2": "other"}), CASES),
    "names of classes in words that all know": (
        classes({str(n): "covid" if one else "normal" for n, one in enumerate(TOLD)}), CASES,
    ),
    "order of classes": (
        classes({str(n * 77 % 101): "normal" for n in range(101)}), math.log2(math.factorial(101)),
    ),
}  # fmt: skip
"""How to carry a message -> rules, and the bits that they carry."""


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_counted_above_what_it_carries(attack: str) -> None:
    rules, carried = ATTACKS[attack]
    proposed = [RULES, classes({str(n): "normal" for n in range(101)})]
    found = bits(rules, proposed)
    assert sum(found.bits.values()) > carried
    assert carried < 0.99 * CASES or not found.gate().passed, "a bit a case keeps the score from being useful"


def test_comments_are_gone_before_anything_is_carried_out() -> None:
    said = f"# {MESSAGE}\ntask: diagnosis\ndimensions: 2 # {MESSAGE}\nimages: [{{files: '{{c}}/*'}}]\n"
    said += "label: {source: {field: c}}\n"
    assert MESSAGE not in read_rules(said.encode()).model_dump_json()


def test_the_lengths_are_those_of_a_code() -> None:
    """Kraft: of all that can be said, shares of 2 to the minus length come to 1 at most."""
    begun = [RULES, classes({"0": "normal"})]
    said = [RULES, *(classes(dict(order)) for order in permutations(RULES["label"]["classes"].items()))][1:]
    said += [classes({"0": name}) for name in ("normal", "covid", "films", "x", "xy")]
    said += [
        RULES | {"exclude": [{"files": f"{n}*", "reason": "x"} for n in some]}
        for many in range(1, 5) for some in combinations(range(6), many)
    ]  # fmt: skip
    said += [RULES | {"images": [{"files": [f"{a}{b}/*"]}]} for a, b in product("{}ab", repeat=2)]
    said += [{name: one for name, one in RULES.items() if name != "patient"}, RULES | {"dimensions": 3}]
    different = {Rules.model_validate(one).model_dump_json() for one in said}
    assert len(different) == len(said)
    assert sum(2 ** -sum(bits(one, begun).bits.values()) for one in said) <= 1


def test_every_lock_counts_by_its_own_rules() -> None:
    told = tables(ATTACKS["names of classes"][0])
    plain = tables(RULES)
    once = residual([plain], WORDS, CASES)
    assert residual([plain] * 3, WORDS, CASES).bits == {way: 3 * many for way, many in once.bits.items()}
    both = residual([told, plain], WORDS, CASES)
    assert not both.gate().passed, "what the first rules said is not forgotten with them"


def test_a_script_says_what_it_likes_and_a_given_split_tells_what_to_speak_of() -> None:
    listed = bits({"task": "diagnosis", "dimensions": 2, "listed": "cases.jsonl"}, by_script=True)
    assert listed.bits["script"] > CASES * (1 + math.log2(CASES)) and not listed.gate().passed
    assert listed.gate().evidence.startswith("At least")
    assert not listed.gate(approved=True).passed, "nobody reads a list of all cases"
    written = residual([tables(RULES, [])], WORDS, 60)
    assert not written.gate().passed and written.gate(approved=True).passed
    assert "a person has approved" in written.gate(approved=True).evidence
    assert math.isclose(residual([tables(RULES)], WORDS, 40).a_case, 5 * bits(RULES).a_case)


def test_rules_of_any_length_are_counted_at_once() -> None:
    large = classes({str(n): "normal" for n in range(20_000)})
    assert bits(large, [large]).a_case < 0.1
    assert not bits(large | {"dimensions": 3}, [large]).gate().passed
