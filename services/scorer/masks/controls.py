"""What something that looked at no test image would score on the same test masks."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from services.scorer.masks.files import BadMask
from services.scorer.masks.lattice import resampled, turned
from services.scorer.masks.overlap import Numbers, Overlaps, dice, mean, tally
from services.scorer.masks.reader import read_mask
from services.scorer.patients import Floats, Ints, by_chance, dealt, orders_of
from shared.contracts.data import DatasetFacts, StoredCase
from shared.contracts.scoring import Control
from shared.store import Store

TRAIN_MASKS = 40
"""Most training masks that the prior is made from, evenly over the training cases."""


class MeanMask:
    """One mask for every case: where each structure most probably lies, relative to the volume, going by training.

    A structure is put where at least so many training masks have it as makes its expected Dice the largest; where two
    structures want a point, the more frequent one has it.
    """

    def __init__(self, store: Store, facts: DatasetFacts, train: Sequence[StoredCase], shape: Sequence[int]) -> None:
        """Fetches up to TRAIN_MASKS masks of training cases, one at a time."""
        structures = len(facts.label_names)
        values = [facts.label_values[name] for name in facts.label_names]
        masks = [case.mask for case in train if case.mask]
        chosen = np.unique(np.linspace(0, len(masks) - 1, min(len(masks), TRAIN_MASKS)).round().astype(int))
        counts = np.zeros((structures, *shape), dtype=np.uint8)
        self.structures, self.masks, self.unreadable = structures, 0, 0
        for number in chosen:
            try:
                grid, found = read_mask(store, masks[number], values)
            except BadMask:
                self.unreadable += 1
                continue
            self.masks += 1
            points = resampled(turned(found, grid.affine), shape)
            for structure in range(structures):
                counts[structure] += points == structure + 1
        self.points = self._most_probable(counts)

    def tally(self, truth: Numbers, affine: Floats | None) -> tuple[Ints, Ints, Ints]:
        """Voxels in the truth, in this mask and in both, on the truth's own grid."""
        straight = turned(truth, affine)
        return tally(straight, resampled(self.points, straight.shape), self.structures)

    def _most_probable(self, counts: npt.NDArray[np.uint8]) -> Numbers:
        points = np.zeros(counts.shape[1:], dtype=np.uint8 if self.structures < 255 else np.uint16)
        best = np.zeros(counts.shape[1:], dtype=np.uint8)
        for number, count in enumerate(counts, 1):
            # By number of masks that agree, from all of them down to one: points so far, and their sum of counts.
            levels = np.bincount(count.reshape(-1), minlength=self.masks + 1)[:0:-1]
            if not levels.any():
                continue
            agree = np.arange(self.masks, 0, -1)
            size, held = np.cumsum(levels), np.cumsum(levels * agree)
            expected = 2 * held / (size * self.masks + held[-1])
            wanted = (count >= agree[int(expected.argmax())]) & (count > best)
            points[wanted] = number
            best[wanted] = count[wanted]
        return points


def mean_mask(prior: MeanMask, found: Overlaps) -> Control:
    lost = f", {prior.unreadable} more could not be read" if prior.unreadable else ""
    return Control(
        name="mean_mask",
        value=float(np.nan_to_num(mean(found.scores()))),
        detail=f"each structure where {prior.masks} training masks most probably have it, relative to the volume{lost}",
    )


def constant(truth: Ints, voxels: Ints, names: Sequence[str]) -> Control:
    """The best single structure in every voxel. `truth` is (cases, structures), `voxels` (cases,)."""
    each = []
    for number in range(len(names)):
        answer, both = np.zeros_like(truth), np.zeros_like(truth)
        answer[:, number], both[:, number] = voxels, truth[:, number]
        each.append(float(mean(mean(dice(truth, answer, both)))))
    best = int(np.argmax(each))
    return Control(name="constant", value=each[best], detail=f"{names[best]} in every voxel, the best such answer")


def pair_scores(truth: Numbers, answers: Numbers, answered: npt.NDArray[np.bool_], structures: int) -> Floats:
    """Score of each case's truth (row) with each case's answer (column); both are (cases, points) on one lattice."""
    cases, points = truth.shape
    total, counted = np.zeros((cases, cases)), np.zeros((cases, cases))
    step = max(1, (1 << 24) // cases)
    for number in range(1, structures + 1):
        both, sizes = np.zeros((cases, cases)), np.zeros((2, cases))
        for first in range(0, points, step):
            # Sums of ones: exact in float32 for a piece this long, and a matrix product is by far the fastest way.
            left = (truth[:, first : first + step] == number).astype(np.float32)
            right = (answers[:, first : first + step] == number).astype(np.float32)
            both += left @ right.T
            sizes += left.sum(axis=1), right.sum(axis=1)
        found = dice(sizes[0][:, None], sizes[1][None, :], both)
        total += np.nan_to_num(found)
        counted += np.isfinite(found)
    scores: Floats = np.full((cases, cases), np.nan)
    np.divide(total, counted, out=scores, where=counted > 0)
    scores[:, ~answered] = 0.0
    return scores


def permutation(
    scores: Floats, patients: Ints, edges: Sequence[int], draws: int, seed: int
) -> tuple[tuple[Control, ...], float | None]:
    """Answers dealt to other patients: the control, and the p-value. `scores` as `pair_scores` gives them.

    Where there are at most `draws` orders of the patients, all are tried.
    """
    orders, how = orders_of(int(patients.max()) + 1, draws, seed)
    cases = np.arange(len(patients))
    drawn = mean(scores[cases[None, :], dealt(patients, orders)]) if len(orders) else np.zeros(0)
    how += f", the answers resampled to {'x'.join(map(str, edges))} points"
    return by_chance(float(mean(scores[cases, cases])), drawn[np.isfinite(drawn)], how)
