"""The split that the scorer makes: groups stay whole, classes are alike, and nobody without the seed can tell it."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from case_tables import OTHER, SEED
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scorer.lock.split import ENOUGH, divide, split_shares


def groups_of(sizes: list[list[int]]) -> tuple[np.ndarray, list[tuple[str, ...]]]:
    """`sizes`: of each class, the cases of each of its groups."""
    flat = [(number, f"c{label}") for label, groups in enumerate(sizes) for number in groups]
    groups = np.repeat(np.arange(len(flat)), [number for number, _ in flat])
    return groups, [(flat[group][1],) for group in groups]


def counts(groups: np.ndarray, classes: list[tuple[str, ...]], sides: dict[int, str]) -> Counter[tuple[str, str]]:
    return Counter(
        (name, sides[group]) for group, names in zip(groups.tolist(), classes, strict=True) for name in names
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 4), min_size=3, max_size=30), min_size=2, max_size=4), st.integers(0, 9))
def test_every_class_is_on_every_side(sizes: Any, seed: int) -> None:
    groups, classes = groups_of(sizes)
    sides = divide(groups, classes, split_shares(int(groups.max()) + 1), str(seed))
    assert sides.keys() == set(groups.tolist())
    for name in {name for names in classes for name in names}:
        assert {side for held, side in counts(groups, classes, sides) if held == name} == {"train", "val", "test"}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(1, 3), min_size=30, max_size=60), min_size=2, max_size=3), st.integers(0, 9))
def test_shares_of_each_class_are_met(sizes: Any, seed: int) -> None:
    groups, classes = groups_of(sizes)
    shares = split_shares(int(groups.max()) + 1)
    got = counts(groups, classes, divide(groups, classes, shares, str(seed)))
    for name, total in Counter(name for names in classes for name in names).items():
        for side, share in shares.items():
            # Three cases, the largest group, is as near as whole groups can be sure to come.
            assert abs(got[name, side] - share * total) <= 3


def test_few_patients_are_enough_and_rare_classes_are_learned_first() -> None:
    for patients in range(4, 40):
        groups = np.arange(patients)
        got = Counter(divide(groups, [()] * patients, split_shares(patients), SEED).values())
        assert got["test"] >= 2 and got["val"] >= 1 and got["train"] >= 1, got
        assert patients < 3 * ENOUGH or got["test"] >= 0.2 * patients - 1
    classes = [("rare",), *[("common",)] * 19]
    assert divide(np.arange(20), classes, split_shares(20), SEED)[0] == "train"


def test_every_structure_is_learned_however_many_an_image_shows() -> None:
    """Scans that each show some neighbouring vertebrae: the few of one level must not all be tested, or used for
    selection, for the sake of another level."""
    for seed in range(200):
        draw = np.random.default_rng(seed)
        starts = [*draw.integers(1, 20, 12).tolist(), 1, 7, 13, 19]
        classes = [tuple(f"v{level}" for level in range(start, min(25, start + 7))) for start in starts]
        groups = np.arange(len(classes))
        got = counts(groups, classes, divide(groups, classes, split_shares(len(classes)), str(seed)))
        assert all(got[name, "train"] for names in classes for name in names)
        assert {side for _, side in got} == {"train", "val", "test"}


def test_several_classes_a_case_are_spread_alike() -> None:
    rng = np.random.default_rng(1)
    classes = [
        tuple(name for name, p in zip("abc", (0.6, 0.3, 0.1), strict=True) if rng.random() < p) for _ in range(400)
    ]
    got = counts(np.arange(400), classes, divide(np.arange(400), classes, split_shares(400), SEED))
    for name, total in Counter(name for names in classes for name in names).items():
        assert got[name, "test"] == pytest.approx(0.2 * total, abs=3)


def test_what_is_fixed_stays_and_the_others_make_up_for_it() -> None:
    fixed = {0: "test", 1: "test", 2: "val", 3: "train"}
    sides = divide(np.arange(20), [("a",)] * 20, split_shares(20), SEED, fixed)  # type: ignore[arg-type]
    assert all(sides[group] == side for group, side in fixed.items())
    assert Counter(sides.values()) == Counter(divide(np.arange(20), [("a",)] * 20, split_shares(20), SEED).values())


def test_the_seed_alone_says_who_is_tested() -> None:
    """Over seeds each patient of one size is tested equally often, whatever its place or name."""
    assert divide(np.arange(30), [()] * 30, split_shares(30), SEED) == divide(
        np.arange(30), [()] * 30, split_shares(30), SEED
    )
    assert divide(np.arange(30), [()] * 30, split_shares(30), SEED) != divide(
        np.arange(30), [()] * 30, split_shares(30), OTHER
    )
    classes = [(("a",), ("b",))[number % 2] for number in range(60)]
    tested = np.zeros(60)
    for seed in range(300):
        sides = divide(np.arange(60), classes, split_shares(60), str(seed))
        tested += [sides[group] == "test" for group in range(60)]
    # 70 of 300 are expected of each; five standard deviations are 37.
    assert tested.sum() == 300 * 14 and tested.min() > 33 and tested.max() < 107
