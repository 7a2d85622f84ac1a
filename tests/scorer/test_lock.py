"""From a table of cases to a lock: each fault by its own gate, and nothing of the table's wording behind the lock."""

import re
from collections import Counter

import pytest
from case_tables import (
    GIVEN,
    NIFTI,
    OTHER,
    SEED,
    case,
    changed,
    labelled,
    locked,
    problems,
    ref,
    sides,
    split_as,
    table,
)

from services.scorer.lock.copies import compare, find_copies
from services.scorer.lock.facts import greys
from services.scorer.lock.left_out import left_out
from services.scorer.lock.seal import CannotLock, manifest_sha256, seal
from shared.contracts.cases import CaseRecord, CaseTable
from shared.dataset.rules import by_headers, gather, marks, targets
from shared.reporttext import MAX_CHARACTERS

VALUES = {"spleen": 28, "liver": 6}
ORGANS = {"task": "organ_segmentation", "label_values": VALUES, "dimensions": 3}
HELD = (("effusion",), (), ("mass", "effusion"), ("mass",), ("hernia", "mass"), ())


def masked(count: int = 20) -> list[CaseRecord]:
    mask = ref("mask", NIFTI)
    return [case(n, images=(ref(n, NIFTI),), mask=mask, values=(6, 28) if n % 4 else (6,)) for n in range(count)]


def several(count: int = 60) -> list[CaseRecord]:
    return [case(number, label=HELD[number % 6]) for number in range(count)]


def reports(count: int = 20, **of_7: object) -> list[CaseRecord]:
    found = [case(n, text=f"A nodule of {n} mm. " if n % 5 else "Normal.") for n in range(count)]
    return [*found[:7], found[7].model_copy(update=of_7), *found[8:]]


def test_grades_keep_their_order_behind_the_lock() -> None:
    grades = ("none", "mild", "severe")
    lock = locked(table(labelled(60, grades), ordered=True, label_names=grades))
    assert lock.sealed.facts.label_names == grades and lock.view.facts.ordered
    kinds = locked(table(labelled(60, grades), label_names=grades)).sealed.facts
    assert kinds.label_names == ("mild", "none", "severe") and not kinds.ordered


def test_a_clean_table_locks() -> None:
    lock = locked(table(labelled(40)))
    assert lock.patients == {"train": 22, "val": 6, "test": 12}
    assert lock.counts["test"] == {"normal": 6, "covid": 6}
    assert lock.leakage.checks == {"same_patient": 0, "same_content": 0, "near_duplicate": 0, "look_not_compared": 40}
    rows = lock.sealed.rows
    assert {row.split for row in lock.view.rows} == {"train", "val"} and len(lock.view.rows) == 28
    assert [row.sample_id for row in lock.view.rows] == [one.sample_id for one in lock.view.stored]
    assert lock.view.facts == lock.sealed.facts and lock.sealed.facts.label_names == ("covid", "normal")
    assert all(re.fullmatch(r"case_[0-9a-f]{16}", row.sample_id) for row in rows)
    assert all(re.fullmatch(r"p_[0-9a-f]{16}", row.patient) for row in rows)
    of = {f"key{number}": one for number, one in enumerate(labelled(40))}
    for row, stored, key in zip(rows, lock.sealed.stored, lock.sealed.keys, strict=True):
        assert (row.label, stored.images) == (of[key].label, of[key].images)
        assert row.files == (f"{row.sample_id}/image.png",) and stored.sample_id == row.sample_id


def test_files_are_called_by_what_they_are() -> None:
    views = changed(labelled(20), 3, images=(ref("a"), ref("b", "image/tiff"), ref("c")))
    lock = locked(table(views))
    row = lock.sealed.rows[lock.sealed.keys.index("key3")]
    assert [name.removeprefix(row.sample_id) for name in row.files] == ["/image.png", "/image_1.tif", "/image_2.png"]
    row = locked(table(masked(), **ORGANS)).view.rows[0]
    assert (row.files, row.target) == ((f"{row.sample_id}/image.nii.gz",), f"{row.sample_id}/mask.nii.gz")
    with pytest.raises(ValueError, match="application/dicom"):
        locked(table(changed(labelled(20), 3, images=(ref("a", "application/dicom"),))))


def test_names_sides_and_order_come_from_the_seed_alone() -> None:
    cases = labelled(40)
    lock, again, other = (locked(table(cases), seed) for seed in (SEED, SEED, OTHER))
    assert again == lock and manifest_sha256(again.sealed.rows) == manifest_sha256(lock.sealed.rows)
    assert not {row.sample_id for row in lock.sealed.rows} & {row.sample_id for row in other.sealed.rows}
    assert not {row.patient for row in lock.sealed.rows} & {row.patient for row in other.sealed.rows}
    assert lock.sealed.keys != other.sealed.keys and sides(lock) != sides(other)
    # The order of the table, which the Data Engineer's script may choose, has no say.
    assert locked(table(cases[::-1])).sealed == lock.sealed
    # Over seeds no key is tested more often than another, and no place of the view says a class.
    tested: Counter[str] = Counter()
    first: Counter[str] = Counter()
    for number in range(150):
        lock = locked(table(cases), f"{number:032x}")
        tested.update(key for key, side in sides(lock).items() if side == "test")
        first[str(lock.view.rows[0].label)] += 1
    assert len(tested) == 40 and min(tested.values()) > 20 and max(tested.values()) < 75
    assert 45 < first["covid"] < 105


def test_nothing_of_the_tables_wording_is_in_the_view() -> None:
    """Labels hidden wherever the Data Engineer may write: patients, keys, order, notes, reasons, channels."""
    cases = [
        one.model_copy(
            update={
                "key": f"CANARY-{one.label}-{number}", "patient": f"CANARY-{one.label}-{number}",
                "facts": {"shape": [9, 9], "hu": False, "wrapping": {"order": number, "note": "CANARY"}, "CANARY": 1},
            }
        )
        for number, one in enumerate(labelled(40))
    ]  # fmt: skip
    said = {"CANARY: key3 is covid": 3, targets.not_taken("CANARY"): 2}
    given = table(
        cases, left_out=said, left_out_examples={"CANARY": ("CANARY",)}, conflicts=("CANARY",), label_names=("CANARY",),
        channels=("T1", "CANARY sha256:00ff=covid,00fe=normal"),
        stood_in={"T1 for CANARY sha256:00ff=covid,00fe=normal": 4, "CANARY": 2},
        left_out_here={"CANARY is damaged": ("CANARY-1",)},
        files=45, grouping_from="the part {CANARY} of the paths", examples=({"a": "CANARY"},), problems=("CANARY",),
    )  # fmt: skip
    lock = locked(given)
    for seen in (lock.view, lock.leakage, lock.sealed.facts):
        assert "CANARY" not in seen.model_dump_json()
    assert lock.view.facts.channels == ("T1", "channel 2") and lock.view.facts.stood_in == {"T1 for channel 2": 4}
    assert lock.view.facts.left_out == {
        "cases not asked for, or without a class or report": 2,
        "files, rows or cases left out by the rules for other reasons": 3,
        "cases left out when they were read": 1,
    }
    test = {row.sample_id for row in lock.sealed.rows if row.split == "test"}
    images = {one.images[0].sha256 for one in lock.sealed.stored if one.sample_id in test}
    assert not any(name in lock.view.model_dump_json() for name in test | images)


def test_facts_are_measured_over_training_cases() -> None:
    cases = [
        one.model_copy(
            update={
                "facts": {
                    "shape": [10 + number % 2, 20, 5], "spacing": [0.7, 0.7, 5.0], "channels": 1, "hu": True,
                    "percentiles": [-1000.0, 40.0 + 10 * (one.label == "covid"), 300.0],
                }
            }
        )
        for number, one in enumerate(labelled(40))
    ]  # fmt: skip
    measured = locked(table(cases)).sealed.facts.measured
    assert measured["axes"] == "D, H, W"
    assert measured["shape"] == {"low": [5, 20, 10], "median": [5, 20, 10.5], "high": [5, 20, 11]}
    assert (measured["cases"], measured["hu"], measured["channels"]) == (22, 1.0, {"1": 22})
    assert measured["percentiles"] == {"all": [-1000, 45, 300], "covid": [-1000, 50, 300], "normal": [-1000, 40, 300]}
    assert measured["spacing"]["median"] == [5.0, 0.7, 0.7]


def test_values_of_a_structure_are_those_inside_of_it() -> None:
    inside = {"6": [20.0, 60.0, 90.0], "28": [1.0, 2.0, 3.0]}
    facts = {"percentiles": [-1000.0, 40.0, 300.0], "percentiles_inside": inside, "label_voxels": {"6": 90}}
    cases = [one.model_copy(update={"facts": facts}) for one in masked()]
    told = locked(table(cases, **ORGANS)).sealed.facts.measured
    assert told["percentiles"] == {"all": [-1000, 40, 300], "liver": [20, 60, 90], "spleen": [1, 2, 3]}
    facts |= {"percentiles": [0.0, 4.0, 9.0, 1.0, 50.0, 99.0]}
    both = locked(table([one.model_copy(update={"facts": facts}) for one in masked()], **ORGANS)).sealed.facts.measured
    assert both["percentiles"]["all"] == {"channel 1": [0, 4, 9], "channel 2": [1, 50, 99]}
    assert told["without"] == 0
    assert told["structures"] == {"liver": {"cases": told["cases"], "voxels": [90, 90, 90]}}


@pytest.mark.parametrize(
    ("given", "gate", "says"),
    [
        (table([]), "cases_given", "no case"),
        (table(changed(labelled(20), 3, label=None)), "cases_labelled", "key3"),
        (table(changed(labelled(20), 3, label="rare")), "classes_present", "rare in test"),
        (table(labelled(20, ("a",))), "classes_present", "second class"),
        (table([case(n, label="rare" if n < 2 else "usual") for n in range(20)]), "classes_present", "class in val"),
        (table(labelled(3)), "test_patients", "3 patients"),
        (table(labelled(20, patient="same")), "test_patients", "1 patients"),
        (table(changed(labelled(20), 3, key="key4")), "cases_unique", "key4"),
        (table(labelled(20, ("a", "b" * 101))), "names_bounded", "1 of 2 names"),
        (table(labelled(20, ("a", "b\u202e"))), "names_bounded", "1 of 2 names"),
        (table(changed(several(), 3, label="mass")), "labels_alike", "key3"),
        (table(changed(several(), 3, label=None)), "labels_alike", "key3"),
        (table([case(n, label=("a",) if n % 2 else ("a", "b")) for n in range(20)]), "labels_vary", "a in train"),
        (table([case(n, label=("all",) if n % 2 else ()) for n in range(20)]), "labels_vary", "called all"),
        (table(changed(masked(), 3, mask=None), **ORGANS), "masks_given", "key3"),
        (table(changed(masked(), 3, values=(6, 7)), **ORGANS), "values_known", "key3"),
        (table(masked(), **ORGANS | {"label_values": {"liver": 6, "spleen": 6}}), "label_values", "value 6"),
        (table(masked(), **ORGANS | {"label_values": {"liver": 0}}), "label_values", "no structure"),
        (table(reports(text=None), "report_generation"), "reports_given", "key7"),
        (table(reports(text=" -- . "), "report_generation"), "reports_given", "key7"),
        (table(reports(text="word " * MAX_CHARACTERS), "report_generation"), "reports_bounded", "key7"),
        (table(reports(text="reports/8.txt"), "report_generation"), "reports_are_texts", "key7"),
        (table(reports(text="CXR8_report.xml "), "report_generation"), "reports_are_texts", "key7"),
    ],
)  # fmt: skip
def test_each_fault_is_found_by_its_own_gate(given: CaseTable, gate: str, says: str) -> None:
    found = problems(given)
    assert gate in found and says in found[gate], found
    assert set(found) <= {gate, "label_values", "values_known"}


def test_several_labels_count_a_case_for_each_and_once_for_all() -> None:
    lock = locked(table(several()))
    assert lock.counts["train"]["all"] == lock.patients["train"] and set(lock.counts["test"]) == {
        "all",
        *["effusion", "mass", "hernia"],
    }
    assert {row.label for row in lock.sealed.rows} == {
        (),
        ("effusion",),
        ("effusion", "mass"),
        ("mass",),
        ("hernia", "mass"),
    }
    # A label that the test set lacks is no fault.
    rare = [case(number, label=("a",) if number % 2 else ("b",) if number == 4 else ()) for number in range(30)]
    assert not problems(table(rare))


def test_masks_are_named_by_what_occurs_in_them() -> None:
    facts = locked(table(masked(), **ORGANS | {"label_values": VALUES | {"kidney": 3}})).sealed.facts
    assert facts.label_names == ("liver", "spleen") and facts.label_values == {"liver": 6, "spleen": 28}
    assert locked(table(masked(), **ORGANS)).counts["test"] == {"all": 6}


def test_equal_reports_are_no_leak_but_are_counted() -> None:
    lock = locked(table(reports(), "report_generation"))
    assert "3 of 20 reports repeat another one word for word" in " ".join(lock.leakage.notes)
    assert lock.counts["test"] == {"all": 6} and {row.target for row in lock.view.rows} <= {
        one.text for one in reports()
    }


@pytest.mark.parametrize(
    ("changes", "share", "passed"),
    [
        ({}, "0.0%", True),
        ({"files": 120, "left_out": {gather.NO_RULE: 60}}, "50.0%", False),
        ({"files": 120, "left_out": {f"excluded by the rules: {targets.NO_LABEL}": 60}}, "50.0%", False),
        # An author's own words count for nothing.
        ({"files": 120, "left_out": {str(targets.NO_LABEL): 60}}, "50.0%", False),
        ({"files": 120, "left_out": {f"excluded by the rules: {n}": 1 for n in range(60)}}, "50.0%", False),
        ({"files": 120, "left_out": {targets.not_asked("other"): 60}}, "0.0%", True),
        ({"files": 120, "left_out": {targets.not_taken("other"): 60}}, "0.0%", True),
        ({"files": 120, "left_out": {targets.NO_LABEL: 50, targets.NO_TEXT: 5, gather.NO_RULE: 5}}, "4.2%", True),
        ({"files": 180, "used": 120, "left_out": {marks.NO_MASK: 50, marks.NO_IMAGE: 10}}, "0.0%", True),
        ({"files": 120, "left_out": {by_headers.NO_IMAGE_OBJECT: 60}}, "0.0%", True),
        ({"files": 120, "left_out": {gather.OTHER_KIND: 60}}, "0.0%", True),
        # Rows of a table without an image lose none.
        ({"files": 60, "left_out": {"row of a.csv whose 'id' names no image: add the image, or nothing to do": 9}},
         "0.0%", True),
        # Cases of 100 slices each, counted as cases.
        ({"files": 8000, "used": 6000, "left_out": {targets.NO_PATIENT: 20}}, "25.0%", False),
        ({"files": 8000, "used": 6000, "left_out": {targets.NO_LABEL: 20}}, "0.0%", True),
        ({"left_out_here": {"is damaged": tuple(f"key{n}" for n in range(60, 90))}}, "33.3%", False),
    ],
)  # fmt: skip
def test_how_much_was_left_out_is_judged(changes: dict[str, object], share: str, passed: bool) -> None:
    given = table(labelled(60), **changes)
    gate = left_out(given, locked(given).sealed.rows)
    assert gate.passed == passed and gate.evidence.startswith(f"{share} of the candidate images"), gate.evidence


def test_a_person_who_was_told_may_approve_what_rules_leave_out() -> None:
    given = table(labelled(60), files=120, left_out={"excluded by the rules: rejected views": 60})
    rows = locked(given).sealed.rows
    gate = left_out(given, rows, approved=True)
    assert gate.passed and gate.evidence.startswith("50.0%") and gate.evidence.endswith("approved the split")
    listed = given.model_copy(update={"by_script": True})
    assert not left_out(listed, rows, approved=True).passed
    assert (
        "approved" not in left_out(table(labelled(60)), locked(table(labelled(60))).sealed.rows, approved=True).evidence
    )


def test_what_was_left_out_is_told_by_class_where_it_is_known() -> None:
    given = table(
        labelled(30),
        cases=60,
        counts={"normal": 30, "covid": 30},
        left_out_here={"is damaged": tuple(map(str, range(30)))},
    )
    evidence = left_out(given, locked(given).sealed.rows).evidence
    assert "by class: covid 15 of 30, normal 15 of 30" in evidence
    capped = table(labelled(30), cases=60, counts={"normal": 30, "covid": 30})
    assert "by class" not in left_out(capped, locked(capped).sealed.rows).evidence


def test_what_cannot_be_locked_says_all_that_is_wrong() -> None:
    with pytest.raises(CannotLock) as caught:
        locked(table(split_as(changed(labelled(20), 17, patient="name0", label=None), GIVEN)))
    assert set(caught.value.evidence["gates"]) == {"no_same_patient", "cases_labelled"}
    assert caught.value.evidence["leakage"]["pairs"] == [["same_patient", "key0", "key17"]]


def test_a_baseline_of_grey_values_is_told_with_the_cases() -> None:
    def cases(values: dict[str, float], many: int) -> list[CaseRecord]:
        return [
            case(n, label=name, facts={"percentiles": [0.0, at + n, 255.0]})
            for name, at in values.items()
            for n in range(many)
        ]

    apart = greys(cases({"ill": 10.0, "well": 90.0}, 5), cases({"ill": 12.0, "well": 80.0}, 3))
    assert apart == {"greys_alone": {"balanced_accuracy": 1.0, "guessing": 0.5}}
    assert greys(cases({"ill": 10.0, "well": 90.0}, 5), cases({"ill": 12.0}, 3)) == {}


def test_a_table_without_cases_is_compared_without_its_empty_looks(store) -> None:
    """Every case may fail at intake, as where each mask is of another image."""
    made = table([], looks=store.put_bytes("data", b""))
    assert len(find_copies(store, made).content) == len(compare([]).content) == 0
    with pytest.raises(CannotLock, match="no case that can be read"):
        seal(made, find_copies(store, made), "0" * 32)
