"""Masks are read as whole numbers with their grid; masks and score maps are written on the grid of their scan."""

from pathlib import Path
from typing import Any

import numpy as np

from .readers import guarded, kind_of, volume_shape
from .scan import BadImage, Grid, Scan


def load_mask(path: Path) -> tuple[np.ndarray, Grid]:
    """Whole numbers (i, j, k) in the file's axes. Raises BadImage naming the file."""
    if not path.is_file():
        raise BadImage(f"the mask {path.name} does not exist")
    return guarded(path, lambda: read_mask(path))


def read_mask(path: Path) -> tuple[np.ndarray, Grid]:
    kind = kind_of(path)
    if kind == "nifti":
        import nibabel

        image = nibabel.load(path)
        shape = volume_shape(image.shape, planar=False)
        found, grid = np.asanyarray(image.dataobj).reshape(shape), Grid.of(shape, image.affine)
    elif kind == "numpy":
        found = np.load(path, allow_pickle=False)
        shape = volume_shape(found.shape, planar=True)
        found, grid = found.reshape(shape), Grid.of(shape, None)
    elif kind == "picture":
        from PIL import Image

        with Image.open(path) as picture:
            if picture.mode not in ("1", "L", "P", "I", "I;16"):
                raise BadImage(f"is a picture of mode {picture.mode}; a mask has one whole number a pixel")
            found = np.asarray(picture)[None]
        grid = Grid.of(found.shape, None)
    else:
        raise BadImage("is of no known mask type (NIfTI, npy, PNG)")
    if found.dtype.kind == "f":
        if not np.isfinite(found).all():
            raise BadImage("holds NaN or infinity where a mask has whole numbers")
        whole = np.rint(found)
        if np.abs(whole - found).max() > 1e-3:
            raise BadImage("holds values that are not whole numbers")
        found = whole.astype(np.int32)
    if found.dtype.kind not in "biu":
        raise BadImage(f"holds values of type {found.dtype}, not whole numbers")
    return (found.astype(np.uint8) if found.dtype.kind == "b" else found), grid


def write_mask(scan: Scan, mask: np.ndarray, folder: Path, stem: str) -> str:
    """Write whole numbers (i, j, k) on the grid of `scan`; returns the file's name. A picture becomes a PNG, anything
    else a NIfTI."""
    low, high = int(mask.min()), int(mask.max())
    kinds: tuple[Any, ...] = (np.uint8, np.uint16, np.int16, np.int32)
    fitting = next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return write_array(scan, mask.astype(fitting), folder / f"{stem}.{'png' if scan.kind == 'picture' else 'nii.gz'}")


def write_scores(scan: Scan, scores: np.ndarray, folder: Path, stem: str) -> str:
    """Write what is 0 to 1 (i, j, k) on the grid of `scan`; returns the file's name. A picture becomes a PNG of 16 bits
    (65535 is 1), an npy a float32 npy, anything else a float32 NIfTI."""
    if scan.kind == "picture":
        whole = np.rint(np.clip(scores, 0, 1) * 65535).astype(np.uint16)
        return write_array(scan, whole, folder / f"{stem}-score.png")
    suffix = "npy" if scan.kind == "numpy" else "nii.gz"
    return write_array(scan, scores.astype(np.float32), folder / f"{stem}-score.{suffix}")


def write_array(scan: Scan, array: np.ndarray, path: Path) -> str:
    """A NIfTI gets the header of a NIfTI input: sform and qform stay as they were."""
    array = np.ascontiguousarray(array.reshape(scan.shape))
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".png":
        from PIL import Image

        Image.fromarray(array).save(path)
    else:
        import nibabel

        header = scan.header.copy() if scan.header is not None else None
        two = isinstance(header, nibabel.Nifti2Header)
        affine = scan.grid.affine if scan.grid.affine is not None else np.eye(4)
        image = (nibabel.Nifti2Image if two else nibabel.Nifti1Image)(array, affine, header)
        image.set_data_dtype(array.dtype)
        image.header["cal_max"] = image.header["cal_min"] = 0
        image.header.set_slope_inter(1, 0)
        nibabel.save(image, path)
    return path.name
