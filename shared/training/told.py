"""What metrics.json says beside the figures: the validation cases, worst first, and how far a figure may be chance."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import ndimage

MOST, FIGURES, DRAWS, DRAWN = 40, 200, 100, 50_000
"""Cases and patients that are told; draws of a bootstrap, and cases that all of them together look at."""

Figure = Callable[[Sequence[int], Sequence[str]], float | None]
"""Of some cases, by their numbers, each with the name of its patient."""


def of_cases(cases: Sequence[Mapping[str, Any]], patients: Sequence[str], figure: Figure) -> dict[str, Any]:
    """Entries of metrics.json. `cases` have `id`, `figure` (the lower the worse; None where there is none) and what
    else is to be said of them: `truth` and `answer`, or what `false_parts` finds."""
    known = sorted((case for case in cases if case["figure"] is not None), key=lambda case: case["figure"])
    return {
        "cases": [dict(case) for case in known[:MOST]],
        "figures": by_patient(cases, patients),
        "spread": spread(figure, patients),
        "patients": {"val": len(set(patients))},
    }


def by_patient(cases: Sequence[Mapping[str, Any]], patients: Sequence[str]) -> dict[str, float]:
    """Mean figure of the cases of each patient, by which two trainings are compared: of many patients, evenly drawn."""
    found: dict[str, list[float]] = {}
    for case, patient in zip(cases, patients, strict=True):
        if case["figure"] is not None:
            found.setdefault(patient, []).append(case["figure"])
    drawn = list(found)[:: -(-len(found) // FIGURES) or 1]
    return {patient: round(float(np.mean(found[patient])), 4) for patient in drawn}


def spread(figure: Figure, patients: Sequence[str]) -> float | None:
    """Standard deviation of a figure over draws of as many patients, with replacement; None for fewer than three."""
    numbers, random = pd.Series(range(len(patients))), np.random.default_rng(0)
    groups = [group.tolist() for _, group in numbers.groupby(list(patients), sort=False)]
    if len(groups) < 3:
        return None
    found = []
    for _ in range(max(20, min(DRAWS, DRAWN // len(patients)))):
        drawn = [
            (number, str(place))
            for place, k in enumerate(random.integers(len(groups), size=len(groups)))
            for number in groups[k]
        ]
        if (value := figure([number for number, _ in drawn], [patient for _, patient in drawn])) is not None:
            found.append(value)
    return float(np.std(found)) if len(found) > 10 else None


def false_parts(found: np.ndarray, truth: np.ndarray, voxel_mm3: float, scores: Any = None) -> dict[str, Any]:
    """Connected parts of what was found that touch nothing true: how many, the largest one's mm3, and, where `scores`
    has the probability of each voxel, its highest. Arrays of one shape, 0 background."""
    parts, count = ndimage.label(found > 0)
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    sizes[0] = 0
    sizes[np.unique(parts[truth > 0])] = 0
    if not sizes.any():
        return {"false_parts": 0}
    largest = int(sizes.argmax())
    told: dict[str, Any] = {"false_parts": int((sizes > 0).sum()), "false_mm3": float(sizes[largest] * voxel_mm3)}
    return told if scores is None else told | {"false_score": float(np.asarray(scores)[parts == largest].max())}
