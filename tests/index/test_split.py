"""No patient on two sides, whatever the dataset looks like."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shared.trainkit.split import split_by_patient

Rows = list[dict[str, Any]]


def dataset(*classes: Sequence[int]) -> Rows:
    """`classes[c][p]` samples of patient p of class c."""
    return [
        {
            "sample_id": f"{label}-{patient}-{scan}",
            "patient": f"{label}-{patient}",
            "label": f"c{label}",
            "files": ["x"],
        }
        for label, patients in enumerate(classes)
        for patient, scans in enumerate(patients)
        for scan in range(scans)
    ]


def by(rows: Rows, *keys: str) -> Counter[Any]:
    return Counter(tuple(row[key] for key in keys) for row in rows)


def crossing(rows: Rows) -> set[str]:
    sides = defaultdict(set)
    for row in rows:
        sides[row["patient"]].add(row["split"])
    return {patient for patient, found in sides.items() if len(found) > 1}


classes = st.lists(st.lists(st.integers(1, 4), min_size=3, max_size=30), min_size=2, max_size=4)


@settings(max_examples=60, deadline=None)
@given(classes, st.integers(0, 1000), st.randoms(use_true_random=False))
def test_patients_stay_whole_nothing_is_lost_and_order_has_no_say(sizes: Any, seed: int, random: Any) -> None:
    rows = dataset(*sizes)
    result = split_by_patient(rows, seed=seed)

    assert not crossing(result)
    assert [row["sample_id"] for row in result] == [row["sample_id"] for row in rows]
    for label in range(len(sizes)):
        assert {row["split"] for row in result if row["label"] == f"c{label}"} == {"train", "val", "test"}
    shuffled = random.sample(rows, len(rows))
    again = {row["sample_id"]: row["split"] for row in split_by_patient(shuffled, seed=seed)}
    assert again == {row["sample_id"]: row["split"] for row in result}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(1, 3), min_size=20, max_size=40), min_size=2, max_size=3), st.integers(0, 99))
def test_shares_of_each_class_are_met(sizes: Any, seed: int) -> None:
    rows = dataset(*sizes)
    got = by(split_by_patient(rows, seed=seed), "label", "split")
    total = by(rows, "label")
    for (label,), count in total.items():
        for side, share in {"train": 0.65, "val": 0.15, "test": 0.2}.items():
            # Three scans, the largest patient, is as near as whole patients can be sure to come.
            assert abs(got[label, side] - share * count) <= 3


@settings(max_examples=40, deadline=None)
@given(classes, st.integers(8, 40), st.integers(4, 12), st.booleans(), st.integers(0, 99))
def test_caps_hold_and_lose_no_class(sizes: Any, max_train: int, max_test: int, balance: bool, seed: int) -> None:
    rows = dataset(*sizes)
    result = split_by_patient(rows, seed=seed, val=0, max_train=max_train, max_test=max_test, balance=balance)
    free = by(split_by_patient(rows, seed=seed, val=0), "split")

    sides = by(result, "split")
    assert sides["train",] == min(max_train, free["train",]) and sides["test",] == min(max_test, free["test",])
    assert not crossing(result)
    for label in range(len(sizes)):
        assert {row["split"] for row in result if row["label"] == f"c{label}"} == {"train", "test"}


def test_a_balanced_cap_is_shared_equally_and_drops_scans_before_patients() -> None:
    rows = dataset([4] * 40, [2] * 40, [1] * 40)
    result = split_by_patient(rows, val=0, max_train=60, max_test=12, balance=True)

    assert by(result, "split", "label") == {
        **{("train", f"c{label}"): 20 for label in range(3)},
        **{("test", f"c{label}"): 4 for label in range(3)},
    }
    assert max(by(result, "patient").values()) == 1
    proportional = by(split_by_patient(rows, val=0, max_train=70, max_test=14), "split", "label")
    assert [proportional["train", f"c{label}"] for label in range(3)] == [40, 20, 10]


def test_a_class_smaller_than_its_share_gives_all_it_has() -> None:
    result = split_by_patient(dataset([1] * 100, [1] * 10), val=0, max_train=40, balance=True)

    assert by(result, "split", "label")["train", "c1"] == 8
    assert by(result, "split", "label")["train", "c0"] == 32


def test_max_train_bounds_train_and_val_together() -> None:
    sides = by(split_by_patient(dataset([2] * 40, [2] * 40), max_train=60), "split")

    assert sides["train",] + sides["val",] == 60 and sides["val",] >= 8


@settings(max_examples=40, deadline=None)
@given(classes, st.data())
def test_patients_with_an_identical_sample_stay_together(sizes: Any, data: Any) -> None:
    rows = dataset(*sizes)
    names = st.sampled_from([row["sample_id"] for row in rows])
    same = data.draw(st.lists(st.tuples(names, names), max_size=4))
    patients = {row["sample_id"]: row["patient"] for row in rows}
    assume(len(set(patients.values())) > 2 + len(same))
    result = split_by_patient(rows, val=0, same=same)

    side = {row["patient"]: row["split"] for row in result}
    assert all(side[patients[one]] == side[patients[other]] for one, other in same)


def test_an_existing_split_is_kept_and_val_comes_out_of_train() -> None:
    rows = dataset([2] * 20, [2] * 20)
    keep = {row["sample_id"]: "test" if int(row["patient"].split("-")[1]) < 5 else "train" for row in rows}
    result = split_by_patient(rows, keep=keep)

    assert {row["sample_id"] for row in result if row["split"] == "test"} == {n for n, s in keep.items() if s == "test"}
    assert not crossing(result)
    assert by(result, "split", "label")["val", "c0"] == by(result, "split", "label")["val", "c1"] == 4

    given_val = {name: "val" if name.endswith("-7-0") or name.endswith("-7-1") else side for name, side in keep.items()}
    assert {r["sample_id"]: r["split"] for r in split_by_patient(rows, keep=given_val)} == given_val


def test_several_labels_and_none() -> None:
    many = [
        {"sample_id": str(n), "patient": f"p{n // 2}", "label": ["a", "b"] if n % 3 else ["c"], "files": ["x"]}
        for n in range(90)
    ]
    result = split_by_patient(many)
    assert not crossing(result)
    for name in "abc":
        assert {row["split"] for row in result if name in row["label"]} == {"train", "val", "test"}

    bare = [{"sample_id": str(n), "patient": str(n), "files": ["x"]} for n in range(20)]
    assert by(split_by_patient(bare), "split") == {("train",): 13, ("val",): 3, ("test",): 4}


def test_seeds_differ() -> None:
    rows = dataset([1] * 30, [1] * 30)
    assert split_by_patient(rows, seed=1) != split_by_patient(rows, seed=2)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "no samples"),
        (dataset([5]), {}, "one patient"),
        (dataset([1, 1, 1]), {}, "the one class 'c0'"),
        (dataset([1], [1]), {}, "too few"),
        (dataset([1] * 5, [1] * 5), {"test": 1.2}, "shares below 1"),
        (dataset([1] * 5, [1] * 5), {"max_test": 1}, "one of each of 2 classes"),
        (dataset([1] * 5, [1] * 5), {"keep": {}}, "gives no train, val or test for 10"),
        (dataset([1] * 5, [1] * 5), {"same": [("0-0-0", "nobody")]}, "not among the rows"),
        (dataset([2], [1]), {"keep": {"0-0-0": "train", "0-0-1": "test", "1-0-0": "train"}}, "0-0 in test and train"),
        (dataset([1] * 2, [1]) * 2, {}, "must be unique"),
    ],
)  # fmt: skip
def test_impossible_requests_are_told_plainly(rows: Rows, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_by_patient(rows, **options)
