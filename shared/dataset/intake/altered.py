"""Control cases: canonical images made blank, moved by one pixel or given noise. A program for the sandbox.

    python -P -m shared.dataset.intake.altered ALTERED

ALTERED is JSON, name -> `blanked`, `moved` or `noise`, of files below the current folder, or of folders of them. Each
is written again in its place: the same grid and type, another content.

- `blanked`: one value everywhere, the same in all blanked images (the mean of their means), so that nothing is left of
  what a case shows, its brightness included.
- `moved`: by one pixel along a random axis of the picture or slice; the edge is repeated.
- `noise`: below one grey level: of whole numbers every fourth value one up or down, within the image's own range; of
  others up to half of a 256th of that range.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from shared.imaging.image import Image
from shared.imaging.volume import read
from shared.imaging.write import write_nifti, write_png, write_tiff

NIFTI = ".nii.gz"
GREY_LEVELS = 256


def alter(wanted: Mapping[str, str], root: Path) -> None:
    """Raises BadImage for a file that is no canonical image."""
    files = {path: how for name, how in wanted.items() for path in _files(root / name)}
    blanked = [path for path, how in files.items() if how == "blanked"]
    level = float(np.mean([_read(path).array.mean() for path in blanked])) if blanked else 0.0
    rng = np.random.default_rng()
    for path, how in files.items():
        image = _read(path)
        array = image.array
        if how == "blanked":
            _write(np.full_like(array, _fitting(level, array.dtype)), image, path)
        else:
            _write(moved(array, rng) if how == "moved" else noisy(array, rng), image, path)


def moved(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    axis, step = int(rng.integers(2)), int(rng.choice([-1, 1]))
    places = np.clip(np.arange(array.shape[axis]) - step, 0, array.shape[axis] - 1)
    return np.asarray(array.take(places, axis=axis))


def noisy(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    low, high = array.min(), array.max()
    if array.dtype.kind in "iu":
        found, dice = array.copy(), rng.integers(8, size=array.shape, dtype=np.uint8)
        found[(dice == 0) & (array > low)] -= 1
        found[(dice == 1) & (array < high)] += 1
        return found
    grain = (rng.random(array.shape, np.float32) - np.float32(0.5)) * ((high - low) / np.float32(GREY_LEVELS))
    return np.asarray(np.clip(array + grain, low, high), array.dtype)


def _fitting(level: float, dtype: np.dtype) -> float:
    return level if dtype.kind == "f" else float(np.clip(round(level), np.iinfo(dtype).min, np.iinfo(dtype).max))


def _files(place: Path) -> list[Path]:
    return sorted(place.iterdir()) if place.is_dir() else [place]


def _read(path: Path) -> Image:
    return read([path], axis4="channels")


def _write(array: np.ndarray, image: Image, path: Path) -> None:
    flat = array[..., 0] if array.shape[-1] == 1 else array
    if image.affine is not None:
        write_nifti(flat, image.affine, path.with_name(path.name.removesuffix(NIFTI)))
    elif path.suffix == ".png":
        write_png(flat, path.with_suffix(""))
    else:
        write_tiff(array, image.colour, path.with_suffix(""))


if __name__ == "__main__":
    alter(json.loads(sys.argv[1]), Path())
