"""Slices of one study that only their numbers take together stand on one side of the split; strangers stay apart."""

import numpy as np
import pytest
from case_tables import case, looks, table
from looking_alike import body
from scipy.ndimage import gaussian_filter

from services.scorer.lock.copies import Copies, compare
from services.scorer.lock.seal import seal
from services.scorer.lock.series import series
from shared.contracts.cases import CaseRecord
from shared.contracts.wrapping import Wrapping

SEED = "5e" * 32
STUDIES, SLICES = 24, 5


def slices(study: int, changes: float) -> list[np.ndarray]:
    """Neighbours: each differs from the one before by own structures of `changes`."""
    volume = body(1000 + study).astype(float)
    drift = gaussian_filter(np.random.default_rng(study).normal(size=(SLICES, 160, 160)), (1, 9, 9))
    return [np.clip(volume + changes * one / drift.std(), 0, 255).astype(np.uint8) for one in drift]


def named(count: int, name: str = "Tumor- ({})", **changes: object) -> list[CaseRecord]:
    return [case(n, key=name.format(n + 1), **changes) for n in range(count)]


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    return [one for study in range(STUDIES) for one in slices(study, 6)]


def study_of(place: int) -> int:
    return place // SLICES


def test_neighbours_of_a_study_are_found_and_no_strangers(pictures: list[np.ndarray]) -> None:
    pairs = series(named(len(pictures)), looks(pictures))
    assert all(study_of(one) == study_of(other) for one, other in pairs)
    next_to = {one for one, other in pairs if other == one + 1}
    assert len(next_to) >= 0.9 * STUDIES * (SLICES - 1)


def test_numbers_count_not_the_order_of_the_table(pictures: list[np.ndarray]) -> None:
    order = np.random.default_rng(1).permutation(len(pictures)).tolist()
    cases = named(len(pictures))
    pairs = series([cases[n] for n in order], looks([pictures[n] for n in order]))
    assert pairs and all(study_of(order[one]) == study_of(order[other]) for one, other in pairs)


def test_strangers_under_numbers_stay_apart() -> None:
    assert series(named(60), looks([body(n) for n in range(60)])) == []


def test_other_names_are_no_neighbours(pictures: list[np.ndarray]) -> None:
    names = ["".join(np.random.default_rng(n).choice(list("abcdefgh"), 9)) for n in range(len(pictures))]
    cases = [case(n, key=name) for n, name in enumerate(names)]
    assert series(cases, looks(pictures)) == []


def test_equal_sizes_tell_where_few_strangers_have_one() -> None:
    """Slices that look like strangers, under a size of their own a study."""
    cases = [
        case(n, key=f"im{n}", wrapping=Wrapping(numbers={"dimensions": (96.0, 96.0 + study_of(n))}))
        for n in range(STUDIES * SLICES)
    ]
    pairs = series(cases, looks([body(n) for n in range(len(cases))]))
    inside = [(n, n + 1) for n in range(len(cases)) if n % SLICES < SLICES - 1]
    assert {*inside} <= {*pairs}
    # CHANCE lets one of 200 strangers through.
    assert sum(study_of(one) != study_of(other) for one, other in pairs) <= 2


def test_a_study_stands_on_one_side_where_nobody_names_patients(pictures: list[np.ndarray]) -> None:
    cases = named(len(pictures))
    cases = [one.model_copy(update={"label": ("dark", "light")[study_of(n) % 2]}) for n, one in enumerate(cases)]
    records = looks(pictures)
    apart, together = compare(cases, records), compare(cases, records, unnamed=True)
    assert apart.series == () and together.series
    lock = seal(table(cases, grouping="inferred"), together, SEED)
    sides = {key: row.split for key, row in zip(lock.sealed.keys, lock.sealed.rows, strict=True)}
    torn = sum(len({sides[cases[n].key] for n in range(s * SLICES, (s + 1) * SLICES)}) > 1 for s in range(STUDIES))
    assert torn <= 1 and sum(lock.patients.values()) <= STUDIES + 4
    assert any("neighbouring numbers" in note for note in lock.leakage.notes)


@pytest.mark.parametrize("bodies", [1, 8])
def test_few_bodies_under_all_numbers_are_not_made_patients(bodies: int) -> None:
    pairs = tuple((n, n + 1) for n in range(59) if (n + 1) % (60 // bodies))
    cases = [case(n, key=f"im{n}", label=("dark", "light")[n % 2]) for n in range(60)]
    lock = seal(table(cases, grouping="inferred"), Copies(np.arange(60), series=pairs), SEED)
    assert sum(lock.patients.values()) == 60
    assert any("each counts as one" in note for note in lock.leakage.notes)


def test_classes_one_after_the_other_are_no_studies() -> None:
    """Neighbours are alike for being of one class, and of one body with little of their own."""
    rng = np.random.default_rng(2)
    kinds = [body(n) for n in range(6)]
    pictures = [np.clip(kinds[n // 20] + rng.normal(0, 25, (160, 160)), 0, 255).astype(np.uint8) for n in range(120)]
    cases = named(120)
    assert series(cases, looks(pictures))
    cases = [one.model_copy(update={"label": f"kind {n // 20}"}) for n, one in enumerate(cases)]
    assert series(cases, looks(pictures)) == []
