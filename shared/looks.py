"""Records of looks: samples made small, so that they can be compared without their files.

A *look* is one sample at a glance: 4096 bytes. A picture becomes (64, 64), rows and columns; a volume or a stack of
slices (16, 16, 16), slices first. Values 0..255 span the 1st to 99th percentile, so that brightness, contrast and dtype
do not count. Proportions are not kept: what counts is the place relative to the whole, which resampling leaves alone.
The `intake` job makes them, in the sandbox (`shared/dataset/intake/looks_of.py`), the scorer compares them.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

PICTURE, VOLUME = 64, 16
"""Points along an axis."""
LENGTH = 4096
NOTHING, FLAT, SOLID = 0, 2, 3
"""Of what kind a look is: none could be made, a picture, a volume."""
RECORD = np.dtype([("content", "u1", 32), ("kind", "u1"), ("look", "u1", LENGTH)])
"""`content` is the SHA-256 over the sorted SHA-256s of the sample's images: equal for copies under other names."""


def content_of(digests: Iterable[bytes]) -> bytes:
    """The `content` of a record, from the SHA-256s of the sample's images."""
    return hashlib.sha256(b"".join(sorted(digests))).digest()


def grid_of(kind: int, look: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(64, 64) or (16, 16, 16), or with a leading axis more for looks of one kind."""
    return look.reshape(*look.shape[:-1], *((PICTURE,) * 2 if kind == FLAT else (VOLUME,) * 3))
