"""Bits that whoever wrote the rules could have carried past the lock, a case."""

import math

from case_tables import labelled, locked, table

from services.scorer.residual import residual
from shared.contracts.rules import Rules

RULES = {
    "task": "diagnosis", "dimensions": 2, "images": [{"files": "{class}/{patient}_*.png"}],
    "patient": {"field": "patient"}, "label": {"source": {"field": "class"}},
}  # fmt: skip
WORDS = "Tell covid from normal in chest films"


def bits(count: int = 200, rules: dict[str, object] = RULES, locks: int = 1, words: str = WORDS, **changes: object):
    given = table(labelled(count), **changes).model_copy(update={"rules": Rules.model_validate(rules)})
    facts = locked(given).sealed.facts
    return residual(given, facts, words, locks, 40)


def test_honest_rules_carry_less_than_a_bit_a_case() -> None:
    found = bits()
    # One digit, two `{fields}`, seven other characters, an end, two names of fields; 17 times which part comes next.
    rules = 8 * (1 + 2 + 7 + 1 + 2) + 5 * 17
    assert found.bits == {"left out": 0, "names": 2 * math.log2(7), "rules": rules} and found.cases == 200
    assert found.a_case < 1
    assert found.said.startswith("At most") and f"names 6, rules {rules}" in found.said


def test_each_way_is_counted() -> None:
    honest = bits().bits
    assert bits(words="").bits["names"] == 8 * len("covidnormal")
    gone = bits(left_out={"excluded: blurred": 20}, files=220).bits["left out"]
    assert math.isclose(gone, math.log2(math.comb(220, 20)))
    assert {way: 3 * many for way, many in honest.items()} == bits(locks=3).bits
    one_each = RULES | {"label": {"source": {"field": "class"}, "classes": {f"scan{n}": "covid" for n in range(200)}}}
    assert bits(rules=one_each).a_case > 1
    listed = "{class}/{patient}_[" + "".join(map(str, range(10))) * 20 + "].png"
    long = bits(rules=RULES | {"images": [{"files": listed}]}).bits["rules"] - honest["rules"]
    assert long > 8 * 190, "a pattern counts by its length"
    part = RULES | {"patient": {"field": "patient", "part": "(" + "|".join(f"p{n:03}" for n in range(100)) + ")"}}
    assert bits(rules=part).a_case > 1


def test_a_script_and_a_given_split_carry_more() -> None:
    listed = bits(rules={"task": "diagnosis", "dimensions": 2, "listed": "cases.jsonl"}, by_script=True)
    assert math.isclose(listed.bits["script"], 200 * (1 + math.log2(200))) and listed.a_case > 1
    assert listed.said.startswith("At least")
    sides = ["train"] * 120 + ["val"] * 40 + ["test"] * 40
    given = [case.model_copy(update={"split": side}) for case, side in zip(labelled(200), sides, strict=True)]
    made = table(given).model_copy(update={"rules": Rules.model_validate(RULES)})
    assert residual(made, locked(made).sealed.facts, WORDS, 1, 40).cases == 40
