"""Units of values: when they are Hounsfield units, and rescaling that only a table tells."""

import numpy as np

AIR, TISSUE = -500.0, 200.0
"""HU: what lies below the first is gas; soft tissue lies around zero, not further from it than the second."""
GAS_SHARE, TISSUE_SHARE = 0.01, 0.05
_LOOKED_AT = 1_000_000


def looks_like_hu(values: np.ndarray) -> bool:
    """Whether values are Hounsfield units.

    At least 1 % lie below -500 and 5 % within 200 of zero: CT has gas and soft tissue there, and no other modality or
    picture has both. A share, not the minimum, so that single voxels and padding decide nothing.
    """
    flat = values.reshape(-1)
    thin = flat[:: max(1, flat.size // _LOOKED_AT)]
    gas = np.count_nonzero(thin < AIR)
    tissue = np.count_nonzero((thin > -TISSUE) & (thin < TISSUE))
    return bool(gas >= GAS_SHARE * thin.size and tissue >= TISSUE_SHARE * thin.size and thin.size)


def rescaled(values: np.ndarray, slope: float | None, intercept: float | None, doubtful: bool) -> np.ndarray:
    """Stored values in physical units, by a table's slope and intercept where the file's header is silent.

    `doubtful` for formats that converters write with the rescaling done (NIfTI, NRRD, MetaImage): then it is done only
    if that brings more voxels between air and soft tissue. Pictures and arrays hold stored values: it is always done.
    """
    from .nifti import rescaled_exactly

    slope, intercept = 1.0 if slope is None else float(slope), 0.0 if intercept is None else float(intercept)
    if (slope, intercept) == (1.0, 0.0):
        return values
    changed = rescaled_exactly(values, slope, intercept)
    return values if doubtful and bodily(values) >= bodily(changed) else changed


def bodily(values: np.ndarray) -> int:
    """Voxels from air to soft tissue, taken as HU."""
    return int(np.count_nonzero((values > -1100) & (values < TISSUE)))
