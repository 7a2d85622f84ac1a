"""Which side of the lock a case is on: a split that the dataset brings, copies, near-duplicates."""

import numpy as np
import pytest
from case_tables import GIVEN, SEED, case, changed, labelled, locked, looks, problems, ref, sides, split_as, table
from looking_alike import body, cropped

from services.scorer.lock.copies import compare
from services.scorer.lock.seal import seal
from shared.contracts.cases import CaseRecord, CaseTable


def test_a_split_of_the_dataset_is_used_and_completed() -> None:
    lock = locked(table(split_as(labelled(20), GIVEN)))
    assert lock.sealed.facts.split_from == "dataset"
    assert sides(lock) == {f"key{number}": side for number, side in enumerate(GIVEN)}
    without_val = [side if side != "val" else "train" for side in GIVEN]
    lock = locked(table(split_as(labelled(20), without_val)))
    assert [sides(lock)[f"key{number}"] for number in range(16, 20)] == ["test"] * 4
    assert lock.patients == {"train": 14, "val": 2, "test": 4}
    without_test = ["train"] * 12 + ["val"] * 8
    lock = locked(table(split_as(labelled(20), without_test)))
    assert lock.patients == {"train": 10, "val": 2, "test": 8} and lock.sealed.facts.split_from == "dataset"
    for given in (["train"] * 20, [*GIVEN[:-1], None]):
        assert locked(table(split_as(labelled(20), given))).sealed.facts.split_from == "made"


@pytest.mark.parametrize(
    ("cases", "gate"),
    [
        (changed(labelled(20), 17, patient="name0"), "no_same_patient"),
        (changed(labelled(20), 16, images=(ref(0),)), "no_same_content"),
        (changed(labelled(20), 16, images=(ref(0), ref(3))), None),
    ],
)
def test_a_patient_or_a_copy_on_two_sides_of_a_given_split_fails(cases: list[CaseRecord], gate: str | None) -> None:
    found = problems(table(split_as(cases, GIVEN)))
    assert set(found) == ({gate} if gate else set())
    assert "drop `split` from the rules" in found[gate] if gate else not found
    assert not problems(table(cases))


def test_a_split_without_training_fails_with_the_remedy() -> None:
    assert "drop `split`" in problems(table(split_as(labelled(20), ["val"] * 8 + ["test"] * 12)))["split_given"]


def test_copies_of_different_patients_make_them_one() -> None:
    cases = changed(changed(labelled(20), 16, images=(ref(0),)), 2, images=(ref(0),))
    for seed in range(20):
        lock = locked(table(cases), f"{seed:032x}")
        rows = {key: row for key, row in zip(lock.sealed.keys, lock.sealed.rows, strict=True)}
        assert len({(rows[key].split, rows[key].patient) for key in ("key0", "key2", "key16")}) == 1
    assert "2 patients count as one with another" in " ".join(lock.leakage.notes)
    assert sum(lock.patients.values()) == 18


def test_copies_with_different_labels_are_left_out_and_copies_of_one_patient_stay() -> None:
    lock = locked(table(changed(labelled(20), 3, images=(ref(0),))))
    assert not {"key0", "key3"} & set(lock.sealed.keys) and len(lock.sealed.keys) == 18
    assert lock.sealed.facts.left_out == {"cases that are exact copies of one another with different labels": 2}
    twice = changed(labelled(20), 2, images=(ref(0),), patient="name0")
    assert len(locked(table(twice)).sealed.keys) == 20


def near_table(pictures: list[np.ndarray]) -> tuple[CaseTable, object]:
    given = table(labelled(len(pictures)))
    return given, compare(given.cases, looks(pictures))


def test_near_duplicates_join_patients_before_the_split_is_made() -> None:
    pictures = [body(number, (64, 64)) for number in range(16)]
    pictures[9] = cropped(pictures[4], 0.05)
    given, copies = near_table(pictures)
    assert copies.near == ((4, 9),)
    for seed in range(10):
        lock = seal(given, copies, f"{seed:032x}")
        assert sides(lock)["key4"] == sides(lock)["key9"]
        called = dict(zip(lock.sealed.keys, lock.sealed.rows, strict=True))
        pair = f"for example, {called['key4'].sample_id} and {called['key9'].sample_id}."
        assert (pair in " ".join(lock.leakage.notes)) == (sides(lock)["key4"] != "test")
    assert lock.leakage.checks["near_duplicate"] == 0 and "1 pairs of near-duplicates" in " ".join(lock.leakage.notes)
    split = given.model_copy(update={"cases": tuple(split_as(list(given.cases), ["train"] * 9 + ["test"] * 7))})
    lock = seal(split, copies, SEED)
    assert lock.leakage.checks["near_duplicate_in_given_split"] == 1
    (pair,) = lock.leakage.pairs
    assert pair[0] == "near_duplicate_in_given_split" and pair[2] == "[sealed]" and pair[1].startswith("case_")


def test_near_duplicates_that_would_join_most_cases_are_told_instead() -> None:
    # Whatever makes all images alike, one group of all could not be split.
    given, copies = near_table([(body(0, (64, 64)) * share).astype(np.uint8) for share in np.linspace(0.5, 1, 16)])
    lock = seal(given, copies, SEED)
    assert lock.leakage.checks["near_duplicate"] > 0 and "more than 50%" in " ".join(lock.leakage.notes)
    # In four groups, too: of sixteen patients four would be left.
    alike = [(body(n % 4, (64, 64)) * share).astype(np.uint8) for n, share in enumerate(np.linspace(0.5, 1, 16))]
    given, copies = near_table(alike)
    lock = seal(given, copies, SEED)
    assert sum(lock.patients.values()) == 16 and "more than 50%" in " ".join(lock.leakage.notes)


def test_images_without_patients_whose_neighbours_are_alike_become_as_many_patients_as_there_are_scans() -> None:
    slices = [(body(scan, (64, 64)) * share).astype(np.uint8) for scan in range(12) for share in (0.8, 0.9, 1)]
    given, copies = near_table(slices)
    lock = seal(given, copies, SEED)
    assert sum(lock.patients.values()) == 12 and lock.leakage.checks["near_duplicate"] == 0


def test_cases_stay_on_their_side_when_some_are_handed_back() -> None:
    first = locked(table(labelled(40)))
    gone = {"key3", first.sealed.keys[0]}
    later = [*(one for one in labelled(40) if one.key not in gone), *(case(n, label="covid") for n in (50, 51, 52))]
    again = locked(table(later), first.sealed.seed, first.sealed)
    assert {key: side for key, side in sides(again).items() if key in sides(first)} == {
        key: side for key, side in sides(first).items() if key not in gone
    }
    ids = dict(zip(first.sealed.keys, first.sealed.rows, strict=True))
    assert all(row == ids[key] for key, row in zip(again.sealed.keys, again.sealed.rows, strict=True) if key in ids)
    assert len(again.sealed.keys) == 41
    # Once seen in training, a patient is not tested on: not even when two turn out to be one.
    tested = next(key for key, side in sides(first).items() if side == "test")
    trained = next(key for key, side in sides(first).items() if side == "train")
    joined = [
        one.model_copy(update={"patient": "one"}) if one.key in (tested, trained) else one for one in labelled(40)
    ]
    again = locked(table(joined), first.sealed.seed, first.sealed)
    assert sides(again)[tested] == sides(again)[trained] == "train"
