"""The shortcut audit on generated case tables and on files that intake has read."""

from pathlib import Path

import numpy as np
import pytest
from case_tables import case, ref

from bench.shortcuts import PLANTED, SETS, audit, table, taken_in, write
from services.scorer.levels import decide
from services.scorer.shortcuts import features_of, judge, looked_for
from shared.contracts.cases import CaseRecord
from shared.contracts.data import DatasetFacts
from shared.contracts.scoring import Control, Metric
from shared.contracts.wrapping import Groups, Wrapping

FEATURED = [name for name, (_, _, feature) in SETS.items() if feature]


@pytest.mark.parametrize("planted", PLANTED)
def test_what_was_planted_in_a_table_is_found_by_its_name(planted: str) -> None:
    gate = audit(table(planted, seed=3))
    assert not gate.passed and planted in gate.evidence, gate.evidence
    assert audit(table("", seed=3)).passed


@pytest.mark.parametrize("name", [FEATURED[0], *(pytest.param(name, marks=pytest.mark.slow) for name in FEATURED[1:])])
def test_what_was_planted_in_files_is_found_after_intake(name: str, tmp_path: Path) -> None:
    found = {}
    for planted in (True, False):
        folder = tmp_path / str(planted)
        folder.mkdir()
        found[planted] = audit(taken_in(folder, write(name, folder, planted, seed=11, patients=40)))
    assert not found[True].passed and SETS[name][2] in found[True].evidence, found[True].evidence
    assert found[False].passed, found[False].evidence


@pytest.mark.parametrize("name", [name for name, (_, _, feature) in SETS.items() if not feature])
def test_what_follows_from_the_content_is_no_shortcut(name: str, tmp_path: Path) -> None:
    """Sizes that are the patient's own, files that hold more where there is more to see."""
    gate = audit(taken_in(tmp_path, write(name, tmp_path, planted=False, seed=11)))
    assert gate.passed and "not looked for" not in gate.evidence, gate.evidence


def test_a_feature_that_only_knows_the_patient_is_none() -> None:
    """Cases of one patient are alike; who is learned from is not asked about."""
    cases = [
        case(
            number,
            patient=f"p{number // 10}",
            label=("well", "ill")[number // 10 % 2],
            wrapping=Wrapping(numbers={"dimensions": (float(number // 10 * 37 % 101), 9.0)}),
        )
        for number in range(400)
    ]
    gate = audit(cases)
    assert gate.passed and "dimensions" in gate.evidence


def test_a_site_of_a_table_and_an_unusual_label_of_many_count() -> None:
    rng = np.random.default_rng(5)
    names = ("a", "b", "c")
    cases = []
    for number in range(90):
        held = tuple(name for name in names if rng.random() < 0.3)
        site = "0" * 12 if "c" in held else "1" * 12
        cases.append(case(number, label=held, wrapping=Wrapping(groups=Groups(site=site))))
    facts = _facts(label_names=names)
    gate = judge(cases, [one.patient for one in cases], facts)
    assert not gate.passed and "site (c against the others: AUC 1.00)" in gate.evidence


def test_of_masks_it_is_asked_whether_there_is_anything_and_of_reports_nothing() -> None:
    cases = [
        case(number, values=(1,) if number % 2 else (), wrapping=Wrapping(kinds={"format": (str(number % 2),)}))
        for number in range(40)
    ]
    patients = [one.patient for one in cases]
    told = judge(cases, patients, _facts(task="anomaly_detection"))
    assert not told.passed and "format (cases with something marked" in told.evidence
    assert judge(cases, patients, _facts(task="report_generation")).passed
    marked = [one.model_copy(update={"values": (1,)}) for one in cases]
    assert "not looked for" in judge(marked, patients, _facts(task="organ_segmentation")).evidence


def test_few_patients_say_nothing() -> None:
    gate = audit(_alternating(16))
    assert gate.passed and "not looked for: it takes 20 patients" in gate.evidence
    assert not audit(_alternating(40)).passed


def test_a_shortcut_caps_the_level_and_is_among_the_reasons() -> None:
    gate = audit(_alternating(40))
    metric = Metric(name="auc_macro", value=0.9, low=0.8, high=0.95, n=40, patients=40)
    verdict = decide([gate], metric, (), [Control(name="majority", value=0.5)], None, 0.001)
    assert verdict.level == "valid" and "can be told without the image" in verdict.why[0]


def test_many_cases_are_judged_by_some_of_the_patients() -> None:
    rng = np.random.default_rng(0)
    said = rng.integers(2, size=6000)
    wrapped = [Wrapping(kinds={"format": (str(one),)}) for one in said]
    targets = np.stack([said, 1 - said], axis=1).astype(float)
    found = looked_for(features_of(wrapped), ("ill", "well"), targets, np.arange(6000) // 2)
    assert found[0].feature == "format" and found[0].p <= 0.01


def _alternating(count: int) -> list[CaseRecord]:
    return [
        case(
            number,
            label=("ill", "well")[number % 2],
            images=(ref(number),),
            wrapping=Wrapping(kinds={"format": (str(number % 2),)}),
        )
        for number in range(count)
    ]


def _facts(**changes: object) -> DatasetFacts:
    fields = {"task": "diagnosis", "dimensions": 2, "grouping": "stated", "grouping_from": "", "split_from": "made"}
    return DatasetFacts.model_validate(fields | changes)
