import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.cases import CaseSpec, Part
from shared.contracts.rules import Split
from shared.dataset.intake.choose import choose


def case(
    number: int, patient: object, label: str | tuple[str, ...] | None = None, split: Split | None = None
) -> CaseSpec:
    files = (f"{number}.png",)
    return CaseSpec(key=f"c{number}", images=((Part(files=files),),), patient=str(patient), label=label, split=split)


def test_without_bounds_all_stay_in_natural_order() -> None:
    cases = [case(n, n) for n in range(12)]
    random.Random(1).shuffle(cases)
    chosen = choose(cases, max_train=None, max_test=None, balance=False, seed=0)
    assert [one.key for one in chosen] == [f"c{n}" for n in range(12)]


def test_patients_come_before_their_further_cases() -> None:
    cases = [case(n, n % 10) for n in range(40)]
    chosen = choose(cases, max_train=8, max_test=2, balance=False, seed=3)
    assert Counter(one.patient for one in chosen) == {str(n): 1 for n in range(10)}
    chosen = choose(cases, max_train=10, max_test=5, balance=False, seed=3)
    assert set(Counter(one.patient for one in chosen).values()) == {1, 2}


def test_classes_keep_their_shares_or_are_balanced() -> None:
    cases = [case(n, n, "common" if n % 10 else "rare") for n in range(200)]
    shares = Counter(one.label for one in choose(cases, max_train=80, max_test=20, balance=False, seed=0))
    assert shares == {"common": 90, "rare": 10}
    equal = Counter(one.label for one in choose(cases, max_train=20, max_test=10, balance=True, seed=0))
    assert equal == {"common": 15, "rare": 15}
    scarce = Counter(one.label for one in choose(cases, max_train=80, max_test=20, balance=True, seed=0))
    assert scarce == {"common": 80, "rare": 20}


def test_a_small_bound_holds_one_of_each_class_first() -> None:
    cases = [case(n, n, "a" if n else "b") for n in range(100)]
    assert {one.label for one in choose(cases, max_train=1, max_test=1, balance=False, seed=0)} == {"a", "b"}
    assert len(choose(cases, max_train=1, max_test=0, balance=False, seed=0)) == 1


def test_sides_that_are_given_have_their_own_bounds() -> None:
    sides: list[Split] = ["train"] * 60 + ["val"] * 20 + ["test"] * 40
    cases = [case(n, n, None, side) for n, side in enumerate(sides)]
    chosen = Counter(one.split for one in choose(cases, max_train=40, max_test=10, balance=False, seed=0))
    assert chosen == {"train": 30, "val": 10, "test": 10}
    chosen = Counter(one.split for one in choose(cases, max_train=None, max_test=10, balance=False, seed=0))
    assert chosen == {"train": 60, "val": 20, "test": 10}


@pytest.mark.parametrize(("max_train", "max_test", "count"), [(80, None, 100), (None, 10, 50), (7, 3, 10), (0, 0, 0)])
def test_one_bound_is_enough(max_train: int | None, max_test: int | None, count: int) -> None:
    cases = [case(n, n) for n in range(300)]
    assert len(choose(cases, max_train=max_train, max_test=max_test, balance=False, seed=0)) == count


def test_several_classes_count_for_the_rarest() -> None:
    cases = [case(n, n, ("a", "b") if n < 3 else ("a",)) for n in range(60)]
    chosen = choose(cases, max_train=4, max_test=2, balance=True, seed=0)
    assert sum("b" in (one.label or ()) for one in chosen) == 3


@given(
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from("abc")), max_size=40),
    st.integers(0, 30),
    st.integers(0, 10),
    st.booleans(),
    st.integers(0, 5),
)
def test_the_choice_knows_no_order(
    made: list[tuple[int, str]], max_train: int, max_test: int, balance: bool, seed: int
) -> None:
    cases = [case(n, patient, label) for n, (patient, label) in enumerate(made)]
    chosen = choose(cases, max_train=max_train, max_test=max_test, balance=balance, seed=seed)
    turned = choose(cases[::-1], max_train=max_train, max_test=max_test, balance=balance, seed=seed)
    assert chosen == turned and len(chosen) == min(len(cases), max_train + max_test)
    assert len({one.key for one in chosen}) == len(chosen)


def test_another_seed_draws_others_and_a_larger_dataset_keeps_most() -> None:
    cases = [case(n, n) for n in range(100)]
    one, other = ({c.key for c in choose(cases, max_train=20, max_test=0, balance=False, seed=seed)} for seed in (1, 2))
    assert one != other
    grown = [*cases, *(case(n, n) for n in range(100, 105))]
    assert len(one & {c.key for c in choose(grown, max_train=20, max_test=0, balance=False, seed=1)}) >= 15
