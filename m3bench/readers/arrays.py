"""Any file of a replica as an array: pictures, NIfTI, tensors, pickles, DICOM series, folders of slices."""

import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PICTURES = (".png", ".jpg", ".jpeg", ".bmp")
VOLUMES = (".nii", ".nii.gz", ".pt", ".pck", ".dcm")
_NUMPY = {"numpy", "numpy._core.multiarray", "numpy.core.multiarray"}
_MADE_OF = {"dtype", "ndarray", "_reconstruct", "scalar"}


def is_image(path: Path) -> bool:
    return not path.name.startswith(".") and path.name.lower().endswith((*PICTURES, *VOLUMES))


def read(files: Sequence[Path]) -> NDArray[Any]:
    """One sample: a picture is (rows, columns), a volume (slices, rows, columns), several files are one volume.

    NIfTI and tensors are turned: slices from the head down, rows from the front, columns from the patient's right.
    The others stay as they are stored. Raises OSError, EOFError or ValueError where a file is damaged.
    """
    if files[0].suffix.lower() == ".dcm":
        return _series(files)
    slices = [_one(path) for path in files]
    return slices[0] if len(slices) == 1 else np.stack(slices)


def _one(path: Path) -> NDArray[Any]:
    name = path.name.lower()
    if name.endswith(PICTURES):
        from PIL import Image

        with Image.open(path) as picture:
            return np.asarray(picture if picture.mode.startswith("I") else picture.convert("L"))
    if name.endswith(".pt"):
        import torch

        return _upright(torch.load(path, weights_only=True).float().numpy())
    if name.endswith(".pck"):
        try:
            return np.asarray(_ArraysOnly(io.BytesIO(path.read_bytes())).load())
        except pickle.UnpicklingError as error:
            raise ValueError(f"{path} is not the pickle of an array: {error}") from error
    import nibabel

    return _upright(np.asarray(nibabel.as_closest_canonical(nibabel.load(path)).dataobj))


def _upright(volume: NDArray[Any]) -> NDArray[Any]:
    """From axes to the right, the front and the head."""
    return volume.transpose(2, 1, 0)[::-1, ::-1, ::-1]


def _series(files: Sequence[Path]) -> NDArray[Any]:
    import pydicom

    slices = sorted((pydicom.dcmread(path) for path in files), key=lambda item: int(item.InstanceNumber))
    return np.stack([item.pixel_array for item in slices])


class _ArraysOnly(pickle.Unpickler):
    """A pickle runs code: only what an array is made of comes in."""

    def find_class(self, module: str, name: str) -> Any:
        if module not in _NUMPY or name not in _MADE_OF:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of an array")
        # The module is called otherwise since numpy 2.
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)
