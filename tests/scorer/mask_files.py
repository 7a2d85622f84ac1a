"""Masks as files for tests, written in memory."""

import gzip
import io

import nibabel as nib
import numpy as np
from PIL import Image

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


def ball(shape: tuple[int, ...], centre: tuple[float, ...], radius: float, value: int, into: np.ndarray | None = None):
    """uint8 mask with a ball of `value`."""
    grid = np.indices(shape)
    far = sum((axis - c) ** 2 for axis, c in zip(grid, centre, strict=True))
    found = np.zeros(shape, np.uint8) if into is None else into.copy()
    found[far <= radius**2] = value
    return found
