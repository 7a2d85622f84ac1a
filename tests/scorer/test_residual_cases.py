"""Rules that were written otherwise but find the same cases say no more than those that the search proposes."""

import csv
import math
from collections.abc import Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from services.scorer.residual import residual
from shared.contracts.cases import Apart, CaseSpec, CaseTable
from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.rules.apart import apart
from shared.dataset.rules.resolve import resolve

CASES = 60
TOLD = [(7 * n * n + n // 3) % 5 < 2 for n in range(CASES)]
"""A bit for each case, as somebody would tell it to the roles behind the lock."""
NAME = f"f{int(''.join(str(int(one)) for one in TOLD), 2):x}"
"""The same as a word."""
WORDS = "Tell ill from well"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of 30 patients, two each, with their classes in a table."""
    root = tmp_path_factory.mktemp("data")
    (root / "films").mkdir()
    with (root / "labels.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "patient", "diagnosis", "number"])
        for n in range(CASES):
            pixels = np.random.default_rng(n).integers(0, 255, (16, 16)).astype(np.uint8)
            Image.fromarray(pixels).save(root / "films" / f"film{n:03}.png")
            table.writerow([f"film{n:03}.png", f"P{n // 2:02}", "ill" if n % 3 else "well", n])
    return root


BY_HAND: dict[str, Any] = {
    "task": "diagnosis", "dimensions": 2, "images": [{"files": ["films/{the_film}.png"]}],
    "tables": {"what_doctors_said": {"file": "labels.csv", "key": "image", "names": "name"}},
    "patient": {"table": "what_doctors_said", "column": "patient"},
    "label": {
        "source": {"table": "what_doctors_said", "column": "diagnosis"}, "classes": {"ill": "ill", "well": "well"},
    },
}  # fmt: skip
"""As a language model would write it, in words of its own."""


def label(**changes: Any) -> dict[str, Any]:
    return BY_HAND | {"label": BY_HAND["label"] | changes}


def numbered(classes: Mapping[str, str | None]) -> dict[str, Any]:
    """Classes by the number of the picture."""
    return label(source={"table": "what_doctors_said", "column": "number"}, classes=classes)


def table(data: Path, written: Mapping[str, Any]) -> CaseTable:
    """As intake makes it, without images."""
    rules = Rules.model_validate(written)
    found = resolve(rules, data)
    proposals = []
    for one in propose(data, "diagnosis", dimensions=2, target=WORDS):
        theirs = resolve(Rules.model_validate(one.rules), data)
        proposals.append(one.model_copy(update={"apart": apart(theirs.cases, {}, found.cases, {})}))
    return CaseTable(cases=(), coverage=found.coverage, rules=rules, proposals=tuple(proposals))


def in_text(given: CaseTable) -> CaseTable:
    """Where nobody compared the cases."""
    proposals = [one.model_copy(update={"apart": None}) for one in given.proposals]
    return given.model_copy(update={"proposals": tuple(proposals)})


def bits(given: CaseTable) -> float:
    return sum(residual([given], WORDS, CASES).bits.values())


def test_the_same_cases_in_other_words_are_a_number(data: Path) -> None:
    given = table(data, BY_HAND)
    assert given.proposals[0].apart == Apart(cases=CASES, labels=2)
    assert bits(given) < 0.5 * CASES < 2 * CASES < bits(in_text(given))


@pytest.mark.parametrize(
    ("written", "apart"),
    [
        (label(classes={"ill": "disease", "well": "well"}), Apart(cases=CASES, labels=2, renamed={"ill": "disease"})),
        (
            label(classes={"ill": "both", "well": "both"}),
            Apart(cases=CASES, labels=1, renamed={"ill": "both", "well": "both"}),
        ),
        (
            BY_HAND | {"exclude": [{"files": "films/film01*", "reason": "blurred"}]},
            Apart(cases=CASES, absent=10, labels=2),
        ),
        (BY_HAND | {"patient": None}, Apart(cases=CASES, labels=2, regrouped=CASES // 2)),
        (
            BY_HAND | {"patient": {"table": "what_doctors_said", "column": "diagnosis"}},
            Apart(cases=CASES, labels=2, regrouped=CASES - 3),
        ),
        (
            numbered({str(n): "ill" if n % 3 or n < 6 else "well" for n in range(CASES)}),
            Apart(cases=CASES, labels=2, relabelled=2),
        ),
    ],
)
def test_what_differs_in_the_cases_is_seen(data: Path, written: Mapping[str, Any], apart: Apart) -> None:
    assert table(data, written).proposals[0].apart == apart


def test_classes_called_by_words_of_the_request_are_a_choice_among_these(data: Path) -> None:
    words = f"{WORDS}, which is lung_disease or healthy lung, as radiologists do"
    own = table(data, label(classes={"ill": "lung_disease", "well": "healthy_lung"}))
    strange = table(data, label(classes={"ill": "lvng_disease", "well": "healthy_lvng"}))
    of_words, written = (residual([one], words, CASES).bits["rules"] for one in (own, strange))
    assert of_words < 0.5 * CASES < 3 * CASES < written


ATTACKS: dict[str, tuple[dict[str, Any], float]] = {
    "cases that are dropped by pattern": (
        BY_HAND | {"exclude": [{"files": f"films/film{n:03}.png", "reason": "x"} for n, one in enumerate(TOLD) if one]},
        math.log2(math.comb(CASES, sum(TOLD))),
    ),
    "cases that are dropped as classes": (
        numbered({str(n): None if one else "ill" if n % 3 else "well" for n, one in enumerate(TOLD)}),
        math.log2(math.comb(CASES, sum(TOLD))),
    ),
    "labels by number": (numbered({str(n): "ill" if one else "well" for n, one in enumerate(TOLD)}), CASES),
    "names of classes": (label(classes={"ill": "".join(str(int(one)) for one in TOLD), "well": "w"}), CASES),
    "patients by number": (
        BY_HAND
        | {
            "patient": {
                "table": "what_doctors_said", "column": "number",
                "part": f"^({'|'.join(str(n) for n, one in enumerate(TOLD) if one)}|.)",
            }
        },
        sum(TOLD),
    ),
    "a name of a field that says whose a case is": (
        BY_HAND
        | {
            "images": [{"files": [f"films/{{{NAME}}}.png"]}],
            "patient": {"field": NAME},
        },
        CASES,
    ),
}  # fmt: skip
"""How to carry a message -> rules, and the bits that they carry."""


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_on_real_cases_is_counted_above_what_it_carries(data: Path, attack: str) -> None:
    rules, carried = ATTACKS[attack]
    assert bits(table(data, rules)) > carried


def case(number: int, label: str, patient: str) -> CaseSpec:
    parts = ({"files": [f"{number}.png"]},)
    return CaseSpec.model_validate({"key": str(number), "images": (parts,), "patient": patient, "label": label})


def test_the_lengths_are_those_of_a_code(data: Path) -> None:
    """Kraft: of all cases that can be found, shares of 2 to the minus length come to 1 at most."""
    given = in_text(table(data, BY_HAND))
    before = [case(n, "ab"[n % 2], "pq"[n // 2]) for n in range(4)]
    groupings = ["pppp", "pppq", "ppqp", "ppqq", "ppqr", "pqpp", "pqpq", "pqpr", "pqqp", "pqqq", "pqqr", "pqrp",
                 "pqrq", "pqrr", "pqrs"]  # fmt: skip
    shares = 0.0
    for many in range(2, 5):
        for kept in combinations(range(4), many):
            partitions = {tuple(text[n] for n in kept): text for text in groupings}
            alike: dict[tuple[int, ...], str] = {}
            for part, text in partitions.items():
                alike.setdefault(tuple(part.index(one) for one in part), text)
            for labels, text in product(product("ab", repeat=many), alike.values()):
                after = [case(n, name, text[n]) for n, name in zip(kept, labels, strict=True)]
                if (told := apart(before, {}, after, {})) is None:
                    continue
                proposal = given.proposals[0].model_copy(update={"apart": told})
                shares += 2 ** -bits(given.model_copy(update={"proposals": (proposal,)}))
    assert 0 < shares <= 1


def test_more_than_can_be_compared_is_counted_by_its_text() -> None:
    before = [case(n, "ab"[n % 2], f"p{n}") for n in range(4)]
    other = before[0].model_copy(update={"text": "a report"})
    assert apart(before, {}, [*before, case(4, "a", "p4")], {}) is None, "a case that there was not"
    assert apart(before, {}, [other, *before[1:]], {}) is None
    assert apart(before, {}, [*before, before[0].model_copy(update={"label": "b", "key": "x"})], {}) is None
    assert apart(before, {}, [before[0].model_copy(update={"split": "test"}), *before[1:]], {}) is None
    sided = [one.model_copy(update={"split": "train"}) for one in before]
    assert apart(sided, {}, before, {}) == Apart(cases=4, labels=2, no_split=True)
    assert apart(before, {"liver": 1}, before, {"Leber": 1}) == Apart(cases=4, labels=2, renamed={"liver": "Leber"})
    assert apart(before, {"liver": 1}, before, {"liver": 2}) is None
