"""Dice of masks, from voxel counts. `RULES` say what is done where something is empty."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from services.scorer.patients import Floats, Interval, Ints, over_patients

RULES = (
    "A structure that is neither in the truth nor in the answer of a case has no part in the case's mean.",
    "One that is in the truth and not in the answer has Dice 0, and so has one that is only in the answer.",
    "A case's score is the mean over the structures that count in it, the headline the mean over cases.",
    "A case whose truth and answer hold no structure at all is left out of the mean: a healthy scan that is called "
    "healthy earns nothing, one with a finding made up costs a 0.",
    "A case without a usable answer has the score 0, whatever its truth holds.",
)

Numbers = npt.NDArray[Any]
"""Class numbers of voxels: 0 background, 1..N the structures."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Overlaps:
    """Voxels of each structure in each case, as (cases, structures): in the truth, in the answer, in both."""

    truth: Ints
    answer: Ints
    both: Ints
    answered: npt.NDArray[np.bool_]
    """(cases,)"""

    def dice(self) -> Floats:
        """(cases, structures); NaN where a structure has no part in a case."""
        return dice(self.truth, self.answer, self.both)

    def scores(self) -> Floats:
        """(cases,); NaN for a case that is left out."""
        return np.where(self.answered, mean(self.dice()), 0.0)


def dice(truth: npt.ArrayLike, answer: npt.ArrayLike, both: npt.ArrayLike) -> Floats:
    """Elementwise over voxel counts that broadcast; NaN where nothing is in the truth nor in the answer."""
    whole = np.asarray(np.add(truth, answer), dtype=np.float64)
    found: Floats = np.full(whole.shape, np.nan)
    np.divide(2.0 * np.asarray(both, dtype=np.float64), whole, out=found, where=whole > 0)
    return found


def mean(figures: Floats, weights: Floats | None = None) -> Floats:
    """Over the last axis without what is NaN; NaN where nothing is left. `weights` broadcasts with the figures."""
    counts = np.isfinite(figures) * (1.0 if weights is None else weights)
    total = (np.nan_to_num(figures) * counts).sum(axis=-1)
    size = counts.sum(axis=-1)
    found: Floats = np.full(np.shape(size), np.nan)
    np.divide(total, size, out=found, where=size > 0)
    return found


def tally(truth: Numbers, answer: Numbers, structures: int) -> tuple[Ints, Ints, Ints]:
    """(structures,) voxels each in the truth, in the answer and in both; the arrays have one shape."""
    kinds = structures + 1
    pairs = np.zeros(kinds * kinds, dtype=np.int64)
    # Slab by slab, since counting widens every voxel to 8 bytes.
    step = max(1, _CHUNK * truth.shape[-1] // max(truth.size, 1))
    for first in range(0, truth.shape[-1], step):
        slab = slice(first, first + step)
        joint = truth[..., slab].ravel(order="F").astype(np.int64)
        joint *= kinds
        joint += answer[..., slab].ravel(order="F")
        pairs += np.bincount(joint, minlength=len(pairs))
    table = pairs.reshape(kinds, kinds)
    return table.sum(axis=1)[1:], table.sum(axis=0)[1:], table.diagonal()[1:]


def interval(scores: Floats, patients: Ints, draws: int, seed: int, top: float = 1.0) -> Interval | None:
    """Of the mean over the cases that count; `top` is the largest score there can be."""
    return over_patients(patients, lambda weights: mean(scores[None, :], weights), draws, seed, top)


def per_structure(
    found: Overlaps, names: tuple[str, ...], more: Callable[[int], dict[str, float]] = lambda number: {}
) -> dict[str, dict[str, float]]:
    """Structure -> n (cases in which it counts), dice over them, missed and invented (cases); no dice where n is 0.

    `more` gives further figures by the structure's number.
    """
    figures = found.dice()
    table = {}
    for number, name in enumerate(names):
        truth, answer, column = found.truth[:, number], found.answer[:, number], figures[:, number]
        table[name] = {
            "n": float(np.isfinite(column).sum()),
            "missed": float(((truth > 0) & (answer == 0)).sum()),
            "invented": float(((truth == 0) & (answer > 0)).sum()),
        }
        if np.isfinite(column).any():
            table[name] = {"dice": float(mean(column)), **table[name], **more(number)}
    return table
