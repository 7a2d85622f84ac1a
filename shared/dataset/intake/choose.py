"""Which cases are decoded where the plan bounds their number: drawn by patient and class, before anything is opened."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from shared.contracts.cases import CaseSpec
from shared.imaging.order import natural_key

TEST_SHARE = 0.2
"""Of the cases, that the scorer holds out for the test."""


def choose(
    cases: Sequence[CaseSpec], *, max_train: int | None, max_test: int | None, balance: bool, seed: int
) -> list[CaseSpec]:
    """At most `max_train` cases for training and validation and `max_test` for the test, sorted naturally by key.

    Without a given split the bound is one for both together; with one each side has its own. First one case of every
    patient is drawn, then their second ones. Classes keep their proportions; with `balance` they share the bound
    equally, and a class smaller than its share gives all it has. The result depends on the cases' keys, patients and
    labels and on `seed`, not on the order of `cases`.
    """
    by_side: dict[str, list[CaseSpec]] = defaultdict(list)
    for case in cases:
        by_side["test" if case.split == "test" else "train" if case.split else ""].append(case)
    bounds = {"": _total(max_train, max_test), "train": max_train, "test": max_test}
    kept: list[CaseSpec] = []
    for side, some in by_side.items():
        parts = _train_and_val(some, bounds[side]) if side == "train" else [(some, bounds[side])]
        for part, bound in parts:
            kept += _drawn(part, bound, balance, seed)
    return sorted(kept, key=lambda case: natural_key(case.key))


def _total(max_train: int | None, max_test: int | None) -> int | None:
    if max_train is not None and max_test is not None:
        return max_train + max_test
    if max_train is not None:
        return math.ceil(max_train / (1 - TEST_SHARE))
    return None if max_test is None else math.ceil(max_test / TEST_SHARE)


def _train_and_val(cases: Sequence[CaseSpec], bound: int | None) -> list[tuple[list[CaseSpec], int | None]]:
    """Train and val share one bound as they share their cases."""
    train = [case for case in cases if case.split == "train"]
    val = [case for case in cases if case.split == "val"]
    if bound is None or not train or not val:
        return [(train, bound), (val, bound)]
    for_val = min(max(1, round(bound * len(val) / len(cases))), bound)
    return [(train, bound - for_val), (val, for_val)]


def _drawn(cases: Sequence[CaseSpec], bound: int | None, balance: bool, seed: int) -> list[CaseSpec]:
    if bound is None or len(cases) <= bound:
        return list(cases)
    frequency = Counter(name for case in cases for name in _classes(case))
    queues: dict[str, list[CaseSpec]] = defaultdict(list)
    for case in cases:
        # A case with several classes counts for the rarest.
        queues[min(_classes(case), key=lambda name: (frequency[name], name))].append(case)
    quotas = _quotas({name: len(queue) for name, queue in queues.items()}, bound, balance)
    return [case for name, queue in queues.items() for case in _patients_first(queue, seed)[: quotas[name]]]


def _classes(case: CaseSpec) -> tuple[str, ...]:
    return (case.label,) if isinstance(case.label, str) else case.label or ("",)


def _patients_first(cases: Iterable[CaseSpec], seed: int) -> list[CaseSpec]:
    """One case of every patient, then their second ones, and so on."""
    of_patient: dict[str, list[CaseSpec]] = defaultdict(list)
    for case in sorted(cases, key=lambda case: _rank(seed, case.key)):
        of_patient[case.patient].append(case)
    turns = [
        (turn, _rank(seed, patient), case) for patient, some in of_patient.items() for turn, case in enumerate(some)
    ]
    return [case for _, _, case in sorted(turns, key=lambda item: item[:2])]


def _rank(seed: int, name: str) -> bytes:
    """A place in a shuffled order that other names have no say in: a dataset that grows keeps most of its choice."""
    return hashlib.sha256(f"{seed}\0{name}".encode()).digest()


def _quotas(counts: Mapping[str, int], bound: int, balance: bool) -> dict[str, int]:
    """How many of each class, `bound` in all or all there are; one of each class first."""
    total = sum(counts.values())
    weights = {name: 1.0 if balance else count / total for name, count in counts.items()}
    quotas = dict.fromkeys(counts, 0)
    for _ in range(min(bound, total)):
        free = [name for name in counts if quotas[name] < counts[name]]
        # One at a time to the class that is furthest behind its share; bounds are thousands at most.
        chosen = min(free, key=lambda name: (quotas[name] > 0, quotas[name] / weights[name], -counts[name], name))
        quotas[chosen] += 1
    return quotas
