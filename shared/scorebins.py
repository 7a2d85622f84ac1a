"""Scores of voxels as numbers of bins: what is kept of a score image, and enough for its AUC.

Bins have equal width on the scale of the logit: as fine near 0 and 1, where trained models put most of their scores, as
in the middle (0.002 of a probability at 0.5).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 4096
_EDGE = 2.0**-24
"""Probabilities nearer to 0 or 1 than this are in the outer bins."""
_REACH = float(np.log((1 - _EDGE) / _EDGE))


def bins_of(scores: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Bin of each probability, 0 to BINS - 1. Raises ValueError for what is none."""
    found = scores.astype(np.float64)
    if not ((found >= -1e-6) & (found <= 1 + 1e-6)).all():
        raise ValueError("it holds values that are no numbers from 0 to 1")
    np.clip(found, _EDGE, 1 - _EDGE, out=found)
    places = (np.log(found / (1 - found)) / _REACH + 1) * (BINS / 2)
    return np.minimum(places.astype(np.uint16), BINS - 1)
