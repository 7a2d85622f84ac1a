"""The AUC of all voxels of a test set, from score images: how sure a package was that a voxel belongs to a finding.

Scores are read with bounds as a stranger's, voxel by voxel into a histogram a case of 4,096 bins, so that neither
the number of voxels nor a sort costs memory. Bins have equal width on the scale of the logit: as fine near 0 and 1,
where trained models put most of their scores, as in the middle (0.002 of a probability at 0.5). Voxels in one bin count
as equal, so the AUC is exact but for those ties.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from services.scorer.masks.overlap import Numbers
from services.scorer.masks.reader import off_grid
from services.scorer.patients import Floats
from shared.contracts.base import Ref
from shared.maskfile import MAX_BYTES, BadMask, MaskHeader, is_nifti, nifti_values, read_header
from shared.store import Store

BINS = 4096
_EDGE = 2.0**-24
"""Probabilities nearer to 0 or 1 than this are in the outer bins."""
_REACH = float(np.log((1 - _EDGE) / _EDGE))
_SCALES = {"L": 255.0, "I;16": 65535.0, "I;16B": 65535.0, "I": 65535.0}
_CHUNK = 1 << 20
_DRAWS = 100
"""Handled at once."""


class BadScores(ValueError):
    """The file is no score image of its case; the message says why, in words of ours only."""


def tally_scores(store: Store, ref: Ref, truth: Numbers, header: MaskHeader) -> Floats:
    """(2, BINS): voxels of the truth's background and of its structures by their score. Raises BadScores."""
    if ref.size > MAX_BYTES:
        raise BadScores(f"the score image has {ref.size} bytes")
    with tempfile.TemporaryDirectory(prefix="m3-score-") as folder:
        path = Path(folder) / "score"
        store.get_file(ref, path)
        with path.open("rb") as stream:
            try:
                return _tally(stream, truth, header)
            except (BadScores, ImportError, MemoryError):
                raise
            except BadMask as error:
                raise BadScores(str(error)) from None
            except Exception as error:
                # Whatever a decoder trips over in a stranger's file is the file's fault.
                raise BadScores(f"the score image cannot be read ({type(error).__name__})") from None


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


def bins_of(scores: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Bin of each score. Raises BadScores for what is no probability."""
    found = scores.astype(np.float64)
    if not ((found >= -1e-6) & (found <= 1 + 1e-6)).all():
        raise BadScores("the score image holds values that are no numbers from 0 to 1")
    np.clip(found, _EDGE, 1 - _EDGE, out=found)
    places = (np.log(found / (1 - found)) / _REACH + 1) * (BINS / 2)
    return np.minimum(places.astype(np.int64), BINS - 1)


def _tally(stream: BinaryIO, truth: Numbers, header: MaskHeader) -> Floats:
    start = stream.read(8)
    stream.seek(0)
    if start[:6] == b"\x93NUMPY":
        order, pieces = _npy(stream, header)
    elif is_nifti(start[:4]):
        found = read_header(stream)
        if off := off_grid(found, header):
            raise BadScores(off.replace("the mask", "the score image"))
        order, pieces = "F", nifti_values(stream, found)
    else:
        order, pieces = "C", _picture(stream, header)
    layout: Any = order
    inside = truth.reshape(-1, order=layout) > 0
    counts = np.zeros((2, BINS))
    done = 0
    for piece in pieces:
        places = bins_of(piece) + BINS * inside[done : done + len(piece)]
        counts += np.bincount(places, minlength=2 * BINS).reshape(2, BINS)
        done += len(piece)
    if done != truth.size:
        raise BadScores(f"the score image holds {done} of {truth.size} voxels")
    return counts


def _npy(stream: BinaryIO, header: MaskHeader) -> tuple[str, Iterator[npt.NDArray[Any]]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise BadScores("the score image is an .npy file of another version than 1 or 2")
    if dtype.kind != "f":
        raise BadScores("the score image holds no real numbers")
    if tuple(shape) != header.shape:
        raise BadScores(f"the score image has the shape {tuple(shape)} instead of {header.shape}")

    def pieces() -> Iterator[npt.NDArray[Any]]:
        while data := stream.read(_CHUNK * dtype.itemsize):
            yield np.frombuffer(data, dtype=dtype)

    return ("F" if fortran else "C"), pieces()


def _picture(stream: BinaryIO, header: MaskHeader) -> Iterator[npt.NDArray[Any]]:
    from PIL import Image

    with Image.open(stream, formats=("PNG",)) as image:
        if header.affine is not None or (image.height, image.width) != header.shape:
            raise BadScores(f"the score image is {image.height} x {image.width} pixels instead of {header.shape}")
        scale = _SCALES.get(image.mode)
        if scale is None:
            raise BadScores("the score image is not grey")
        flat = np.asarray(image).reshape(-1)
    yield from (flat[first : first + _CHUNK] / scale for first in range(0, len(flat), _CHUNK))
