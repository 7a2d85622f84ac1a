"""The AUC of all voxels of a test set, from score images: how sure a package was that a voxel belongs to a finding.

Scores come as bins (`shared.scorebins`) and are kept as a histogram a case, so that neither the number of voxels nor a
sort costs memory. Voxels in one bin count as equal, so the AUC is exact but for those ties.
"""

import numpy as np

from services.scorer.masks.files import BadMask, Grid, fetched
from services.scorer.masks.overlap import Numbers
from services.scorer.masks.reader import off_grid
from services.scorer.patients import Floats
from shared.contracts.base import Ref
from shared.scorebins import BINS
from shared.store import Store

_CHUNK = 1 << 20
_DRAWS = 100
"""Handled at once."""


class BadScores(ValueError):
    """The file is no score image of its case; the message says why, in words of ours only."""


def tally_scores(store: Store, ref: Ref, truth: Numbers, grid: Grid) -> Floats:
    """(2, BINS): voxels of the truth's background and of its structures by their score. Raises BadScores."""
    try:
        with fetched(store, ref) as file:
            if off := off_grid(file.grid, grid):
                raise BadScores(off.replace("the mask", "the score image"))
            bins = file.numbers().ravel(order="K")
    except BadMask as error:
        raise BadScores(f"the score image cannot be read: {error}") from None
    inside = truth.ravel(order="C" if grid.affine is None else "F") > 0
    if bins.max() >= BINS:
        raise BadScores("the score image cannot be read: it holds numbers of no bin")
    counts = np.zeros((2, BINS))
    for first in range(0, len(bins), _CHUNK):
        piece = slice(first, first + _CHUNK)
        places = bins[piece] + BINS * inside[piece].astype(np.uint16)
        counts += np.bincount(places, minlength=2 * BINS).reshape(2, BINS)
    return counts


def unscored(truth: Numbers) -> Floats:
    """Of a case without scores: every voxel has the lowest."""
    counts = np.zeros((2, BINS))
    counts[1, 0] = np.count_nonzero(truth)
    counts[0, 0] = truth.size - counts[1, 0]
    return counts


def pooled_auc(counts: Floats, weights: Floats) -> Floats:
    """(draws,) from counts (cases, 2, BINS) and weights (draws, cases); NaN where a draw lacks either side."""
    found = []
    flat = counts.reshape(len(counts), -1)
    for first in range(0, len(weights), _DRAWS):
        both = (weights[first : first + _DRAWS] @ flat).reshape(-1, 2, BINS)
        negative, positive = both[:, 0], both[:, 1]
        below = np.cumsum(negative, axis=1) - negative / 2
        pairs = negative.sum(axis=1) * positive.sum(axis=1)
        wins = (positive * below).sum(axis=1)
        found.append(np.divide(wins, pairs, out=np.full(len(both), np.nan), where=pairs > 0))
    return np.concatenate(found)
