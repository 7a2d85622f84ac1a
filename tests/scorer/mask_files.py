"""Masks as files for tests, written in memory: as packages may write them, and as our own programs do."""

import gzip
import io
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
from PIL import Image
from read_predictions import segmentation

from services.tool_runner.masks import mask_result
from shared.imaging.write import write_nifti, write_plain_png
from shared.store import Store

OBLIQUE = np.array(
    [[1.9, -0.4, 0.1, -30.0], [0.5, 1.8, -0.2, 12.0], [0.0, 0.3, 2.9, -77.0], [0.0, 0.0, 0.0, 1.0]], dtype=float
)


def nifti(array: np.ndarray, affine: np.ndarray = OBLIQUE, slope: float | None = None, packed: bool = True) -> bytes:
    """`array` are the stored numbers; `slope` is written to the header and scales them."""
    image = nib.Nifti1Image(array, affine)
    image.header.set_data_dtype(array.dtype)
    data = bytearray(image.to_bytes())
    if slope is not None:
        data[112:120] = np.array([slope, 0.0], dtype="<f4").tobytes()
    return gzip.compress(bytes(data), 1, mtime=0) if packed else bytes(data)


def png(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def canonical(array: np.ndarray, affine: np.ndarray | None = OBLIQUE) -> bytes:
    """As intake writes a mask: a picture without an affine."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "mask"
        return (write_plain_png(array, place) if affine is None else write_nifti(array, affine, place)).read_bytes()


def answered(store: Store, mask: bytes, score: bytes | None = None) -> dict[str, object]:
    """A case of a predict job's result, for a package that left these files."""
    with tempfile.TemporaryDirectory() as name:
        out, given = Path(name), {"mask": "mask.nii.gz", "score": "score.npy" if score is not None else None}
        (out / "result").mkdir()
        (out / "result" / "mask.nii.gz").write_bytes(mask)
        (out / "result" / "score.npy").write_bytes(score or b"")
        told = segmentation("x", given, out, out)
        told.pop("input")
        case: dict[str, object] = mask_result("", out, {}, {"x": told}, {"x": "x"}, store)["cases"]["x"]
        return case


def ball(shape: tuple[int, ...], centre: tuple[float, ...], radius: float, value: int, into: np.ndarray | None = None):
    """uint8 mask with a ball of `value`."""
    grid = np.indices(shape)
    far = sum((axis - c) ** 2 for axis, c in zip(grid, centre, strict=True))
    found = np.zeros(shape, np.uint8) if into is None else into.copy()
    found[far <= radius**2] = value
    return found
