"""The shortcut audit: whether what can be said of a case without its content predicts its target.

A regression tree of three levels learns the target from one feature (format, spacing, ...), and one from most of them
together, on four fifths of the patients, and is judged on the others, each fifth in turn. The largest AUC over features
and classes is compared with what the same search finds once patients have exchanged their targets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from services.scorer.lock.copies import numbered
from services.scorer.patients import Floats, Ints, dealt
from shared.contracts.base import SEGMENTATIONS
from shared.contracts.cases import CaseRecord
from shared.contracts.data import DatasetFacts
from shared.contracts.scoring import Gate
from shared.contracts.wrapping import Wrapping

GATE = "no_shortcut"
BOUND = 0.7
"""AUC below which a feature is no shortcut, however sure it is."""
ALPHA = 0.01
DRAWS = 99
FEWEST_PATIENTS = 20
FEWEST_OF_A_CLASS = 5
"""Patients with and patients without it."""
MOST_CASES = 1500
"""More are not looked at: patients are drawn."""
_FOLDS = 5
_LEVELS, _LEAF = 3, 5
_KINDS = 12
"""Most frequent values of a category that are told apart."""
_TOGETHER = "these together"
_CONTENT = "file size"
"""A file that is packed well grows with what the image shows, and its canonical copy does so where it is not packed:
only what predicts by either measure is no content."""

Features: TypeAlias = Mapping[str, Sequence[Floats]]
"""Name -> matrices (cases, columns), each of which has to predict."""


@dataclass(frozen=True)
class Found:
    """A feature, the class that it tells best from all others, and its AUC; p is 1 for an AUC below the bound."""

    feature: str
    label: str
    auc: float
    p: float = 1.0


def judge(cases: Sequence[CaseRecord], patients: Sequence[str], facts: DatasetFacts) -> Gate:
    """A gate that caps the level; `patients` are those of the lock. Reports are not looked at: they have no classes."""
    if facts.task == "report_generation":
        return Gate(name=GATE, passed=True, evidence="a report has no class that could be predicted without the image")
    names, targets = targets_of(cases, facts)
    features = features_of([case.wrapping for case in cases])
    people = numbered(patients)
    found = looked_for(features, names, targets, people) if features and names else []
    if not found:
        text = (
            f"not looked for: it takes {FEWEST_PATIENTS} patients, {FEWEST_OF_A_CLASS} of a class and as many without"
        )
        return Gate(name=GATE, passed=True, evidence=text)
    shortcuts = [one for one in found if one.p <= ALPHA]
    if not shortcuts:
        text = f"without the images no class can be told: best by {_said(found[0])}; a shortcut has {BOUND:g} and more"
        return Gate(name=GATE, passed=True, evidence=f"{text}. Tried: {', '.join(features)}")
    single = [one for one in shortcuts if one.feature != _TOGETHER] or shortcuts
    text = (
        f"the class can be told without the image, by {'; by '.join(map(_said, single))} (p at most {ALPHA:g} over "
        f"exchanges between {people.max() + 1} patients): the model may have learned that instead"
    )
    return Gate(name=GATE, passed=False, evidence=text)


def _said(one: Found) -> str:
    return f"{one.feature} ({one.label} against the others: AUC {one.auc:.2f})"


def targets_of(cases: Sequence[CaseRecord], facts: DatasetFacts) -> tuple[list[str], Floats]:
    """Names and (cases, names) zeros and ones: classes, or whether anything is marked."""
    if facts.task in SEGMENTATIONS:
        return ["cases with something marked"], np.array([[float(bool(case.values))] for case in cases])
    said = [(case.label,) if isinstance(case.label, str) else case.label or () for case in cases]
    return list(facts.label_names), np.array([[float(name in one) for name in facts.label_names] for one in said])


def features_of(wrapped: Sequence[Wrapping]) -> Features:
    """What differs between cases."""
    found: dict[str, list[Floats]] = {}
    for name in sorted({name for one in wrapped for name in (*one.numbers, *one.kinds)}):
        columns = [*_numbers([one.numbers.get(name, ()) for one in wrapped])]
        if name == _CONTENT:
            found |= {name: [column[:, None] for column in columns]} if all(map(np.ptp, columns)) else {}
            continue
        if name == "dimensions":
            columns.append(np.array([np.prod(one.numbers.get(name, (0.0,))) for one in wrapped]))
        columns += _categories([one.kinds.get(name, ()) for one in wrapped])
        columns = [column for column in columns if np.ptp(column) > 0]
        if columns:
            found[name] = [np.stack(columns, axis=1)]
    for name, group in (("scanner", "manufacturer"), ("site", "site")):
        columns = [*_categories([(getattr(one.groups, group) or "",) for one in wrapped])]
        if columns:
            found[name] = [np.hstack([*found.get(name, []), np.stack(columns, axis=1)])]
    joint = [matrix for name, matrices in found.items() for matrix in matrices if name != _CONTENT]
    return found | ({_TOGETHER: [np.hstack(joint)]} if len(joint) > 1 else {})


def looked_for(features: Features, names: Sequence[str], targets: Floats, patients: Ints) -> list[Found]:
    """What each feature tells, the strongest first. `targets` is (cases, names), `patients` 0..P-1.

    Empty where there are too few patients or cases of any class to say anything.
    """
    kept = _drawn(patients)
    features = {name: [matrix[kept] for matrix in matrices] for name, matrices in features.items()}
    targets, patients = targets[kept], numbered([str(one) for one in patients[kept]])
    counted = [
        column for column in range(len(names))
        if all(len(np.unique(patients[targets[:, column] == side])) >= FEWEST_OF_A_CLASS for side in (0, 1))
    ]  # fmt: skip
    if not counted or patients.max() + 1 < FEWEST_PATIENTS:
        return []
    targets = targets[:, counted]
    each = {name: _predicted(matrices, targets, patients) for name, matrices in features.items()}
    found = [Found(name, names[counted[int(aucs.argmax())]], float(aucs.max())) for name, aucs in each.items()]
    found.sort(key=lambda one: -one.auc)
    if found[0].auc < BOUND:
        return found
    by_chance = _by_chance(found[0].auc, features, targets, patients)
    return [replace(one, p=float((1 + (by_chance >= one.auc).sum()) / (1 + len(by_chance))))
            if one.auc >= BOUND else one for one in found]  # fmt: skip


def _by_chance(best: float, features: Features, targets: Floats, patients: Ints) -> Floats:
    """The largest AUC over features and classes after each exchange of targets between patients; ends once p is too
    large for the `best` one."""
    rng = np.random.default_rng(0)
    found: list[float] = []
    while len(found) < DRAWS and (1 + sum(one >= best for one in found)) / (1 + DRAWS) <= ALPHA:
        exchanged = targets[dealt(patients, rng.permutation(patients.max() + 1)[None, :])[0]]
        found.append(max(float(_predicted(matrices, exchanged, patients).max()) for matrices in features.values()))
    return np.array(found)


def _predicted(matrices: Sequence[Floats], targets: Floats, patients: Ints) -> Floats:
    """(classes,) AUC out of fold, of the matrix that predicts each class worst."""
    from sklearn.tree import DecisionTreeRegressor

    folds = _folds(targets, patients)
    found = []
    for matrix in matrices:
        said = np.zeros_like(targets)
        for fold in range(_FOLDS):
            left = folds == fold
            if left.any() and not left.all():
                tree = DecisionTreeRegressor(max_depth=_LEVELS, min_samples_leaf=_LEAF, random_state=0)
                said[left] = tree.fit(matrix[~left], targets[~left]).predict(matrix[left]).reshape(-1, targets.shape[1])
        found.append(_auc(said, targets))
    return np.asarray(np.min(found, axis=0))


def _auc(scores: Floats, targets: Floats) -> Floats:
    """(classes,) of (cases, classes) each."""
    from scipy.stats import rankdata

    held = targets.sum(axis=0)
    wins = (rankdata(scores, axis=0) * targets).sum(axis=0) - held * (held + 1) / 2
    return np.asarray(wins / np.maximum(held * (len(targets) - held), 1))


def _folds(targets: Floats, patients: Ints) -> Ints:
    """(cases,) fold of each case: patients dealt out in turn, those of one class after the other."""
    first = np.unique(patients, return_index=True)[1]
    # Mixed, so that the order of the files is not the order of the folds.
    mixed = np.random.default_rng(0).permutation(len(first))
    sorted_by_class = mixed[np.lexsort(targets[first[mixed]].T)]
    fold = np.empty(len(first), dtype=np.int64)
    fold[sorted_by_class] = np.arange(len(first)) % _FOLDS
    return fold[patients]


def _drawn(patients: Ints) -> npt.NDArray[np.bool_]:
    """Cases of as many patients, in random order, as have at most MOST_CASES."""
    sizes = np.bincount(patients)
    order = np.random.default_rng(0).permutation(len(sizes))
    chosen = order[np.cumsum(sizes[order]) <= MOST_CASES]
    return np.isin(patients, chosen if len(chosen) else order[:1])


def _numbers(rows: Sequence[tuple[float, ...]]) -> Iterator[Floats]:
    """A column each, what is missing below all others."""
    for place in range(max(map(len, rows), default=0)):
        told = [row[place] if place < len(row) else np.nan for row in rows]
        yield np.nan_to_num(np.array(told), nan=np.nanmin(told) - 1)


def _categories(rows: Sequence[tuple[str, ...]]) -> Iterator[Floats]:
    """A column of zeros and ones for each of the most frequent values, also for a missing one."""
    for place in range(max(map(len, rows), default=0)):
        told = np.array([row[place] if place < len(row) else "" for row in rows])
        values, counts = np.unique(told, return_counts=True)
        for value in values[np.argsort(-counts, kind="stable")][:_KINDS] if len(values) > 1 else ():
            yield (told == value).astype(np.float64)
