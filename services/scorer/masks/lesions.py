"""Lesions one by one: connected voxels of one structure (also over corners), in the truth and in the answer.

A lesion is found when it and one lesion of the answer share at least a tenth of the voxels that either has; a lesion of
the answer that finds none is false. Marking everything therefore finds nothing.
"""

import numpy as np
import numpy.typing as npt

from services.scorer.masks.overlap import Numbers

SHARED = 0.1
"""Of the union of two lesions that are one."""


def count_lesions(truth: Numbers, answer: Numbers | None, structures: int) -> tuple[int, int, int]:
    """Lesions of a case, those found, and false ones of the answer; the arrays have one shape."""
    lesions = found = false = 0
    for number in range(1, structures + 1):
        wanted = truth == number
        given = np.zeros_like(wanted) if answer is None else answer == number
        counts = _matched(wanted, given)
        lesions, found, false = lesions + counts[0], found + counts[1], false + counts[2]
    return lesions, found, false


def _matched(wanted: npt.NDArray[np.bool_], given: npt.NDArray[np.bool_]) -> tuple[int, int, int]:
    left, many = _labelled(wanted)
    right, others = _labelled(given)
    if not (many and others):
        return many, 0, others
    both = wanted & given
    # A pair of lesions as one number: only where they meet, so few voxels are looked at.
    pairs, shared = np.unique(left[both].astype(np.int64) * (others + 1) + right[both], return_counts=True)
    one, other = np.divmod(pairs, others + 1)
    union = np.bincount(left.reshape(-1))[one] + np.bincount(right.reshape(-1))[other] - shared
    same = shared >= SHARED * union
    return many, len(np.unique(one[same])), others - len(np.unique(other[same]))


def _labelled(mask: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int32], int]:
    from scipy.ndimage import generate_binary_structure, label

    if not mask.any():
        return np.zeros(mask.shape, dtype=np.int32), 0
    numbers, count = label(mask, generate_binary_structure(mask.ndim, mask.ndim))
    return numbers, int(count)
