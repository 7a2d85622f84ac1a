"""The image and the masks of one case, for drawing: volumes turned to the nearest RAS+ axes, masks as numbers 1..N."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _images import FORMATS, open_image  # type: ignore[import-not-found]
from _paths import extension, real_path  # type: ignore[import-not-found]
from view_image import Volume, load  # type: ignore[import-not-found]

_SLICES = 400
"""Of a longer series every second, third, ... is read."""
_VIEWS = 3
_FLATTEST = 3
"""How many times wider than high a volume of unknown slice distance may look before its height is guessed."""
_PICTURES = ("raster",)


def read_images(virtual: str, dimensions: int) -> tuple[list[Any], list[str]]:
    """Volumes of the folder's files in their order, with what has to be said of them. Raises what a reader raises.

    `dimensions` 2: each file is a view. 3: the files are slices of one volume, or volumes, of which the first is shown.
    """
    folder: Path = real_path(virtual)
    paths = [f"{virtual}/{name}" for name in sorted(entry.name for entry in folder.iterdir())]
    shown = paths[:_VIEWS] if dimensions == 2 else paths[:1]
    if dimensions == 3 and len(paths) > 1 and _kind(Path(paths[0])) != "nifti":
        return _stack([real_path(path) for path in paths])
    notes = [f"{len(shown)} of {len(paths)} files are shown"] if len(paths) > len(shown) else []
    return [load(path) for path in shown], notes


def read_mask(virtual: str, values: Mapping[str, int], volume: Any) -> np.ndarray:
    """Structure numbers 1..N in the order of `values`, on the volume's grid; any other value is 0."""
    path: Path = real_path(virtual)
    if _kind(path) in _PICTURES:
        from PIL import Image as Pil

        with Pil.open(path) as opened:
            stored = np.asarray(opened)  # of a palette picture the numbers, not the colours
        stored = stored[..., 0] if stored.ndim == 3 else stored
    else:
        stored = load(virtual).array
    wanted = volume.array.shape[:2] if volume.flat else volume.array.shape
    if stored.shape != wanted:
        raise ValueError(f"has the grid {_by(stored.shape)}, the image {_by(wanted)}")
    whole = np.rint(np.nan_to_num(stored)).astype(np.int64)
    table = np.zeros(max([0, *values.values()]) + 2, np.uint16)
    for number, value in enumerate(values.values(), 1):
        table[value] = number
    # The last place of the table stands for all that no structure has.
    return np.asarray(table[np.where((whole < 0) | (whole >= len(table)), len(table) - 1, whole)])


def _kind(path: Path) -> str:
    return str(FORMATS.get(extension(path.name).lower(), "dicom"))


def _stack(paths: Sequence[Path]) -> tuple[list[Any], list[str]]:
    """One volume of the slices that can be read."""
    step = -(-len(paths) // _SLICES)
    slices: list[tuple[np.ndarray, dict[str, Any]]] = []
    failed: list[Exception] = []
    for path in paths[::step]:
        try:
            image = open_image(path, _kind(path))
            pixels = np.asarray(image.pixels(True), np.float32)
            slices.append((pixels[..., :3].mean(axis=2) if pixels.ndim == 3 else pixels, image.facts.get("tags", {})))
        except Exception as error:  # a damaged slice fails in as many ways as there are formats
            failed.append(error)
    if not slices:
        raise failed[0]
    kept = [one for one in slices if one[0].shape == slices[0][0].shape]
    notes = [f"{len(failed)} of {len(paths)} slices cannot be read"] if failed else []
    if len(kept) < len(slices):
        notes.append(f"{len(slices) - len(kept)} slices of another size are left out")
    volume = _placed(kept)
    if volume is None:
        volume, more = _unplaced([pixels for pixels, _ in kept], step)
        notes += more
    return [volume], notes


def _placed(slices: Sequence[tuple[np.ndarray, dict[str, Any]]]) -> Any | None:
    """In the patient's axes, where every slice says where it lies (DICOM)."""
    import nibabel as nib

    keys = ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing")
    if len(slices) < 2 or not all(key in tags for _, tags in slices for key in keys):
        return None
    right, down = np.reshape(np.asarray(slices[0][1][keys[1]], float), (2, 3))
    normal = np.cross(right, down)
    origins = np.asarray([tags[keys[0]] for _, tags in slices], float)
    along = origins @ normal
    order = np.argsort(along, kind="stable")
    gap = float(np.median(np.diff(along[order])))
    rows, columns = (float(size) for size in slices[0][1][keys[2]])
    if not gap > 1e-3:
        return None
    affine = np.eye(4)
    affine[:3, :3] = np.stack([right * columns, down * rows, normal * gap], axis=1)
    affine[:3, 3] = origins[order[0]]
    # DICOM counts to the left and to the back, RAS+ to the right and to the front.
    affine = np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine
    array = np.stack([slices[place][0] for place in order]).transpose(2, 1, 0)
    turned: Any = nib.as_closest_canonical(nib.Nifti1Image(array, affine))
    spacing = tuple(float(size) for size in turned.header.get_zooms()[:3])
    return Volume(np.asarray(turned.dataobj), spacing, {"format": "dicom"}, np.asarray(turned.affine))


def _unplaced(slices: Sequence[np.ndarray], step: int) -> tuple[Any, list[str]]:
    """As if the first slice were the uppermost of an axial scan, as the files do not say otherwise."""
    array = np.stack(slices).transpose(2, 1, 0)[:, ::-1, ::-1]
    notes, thick = ["the files do not say how the slices lie in the patient"], float(step)
    if array.shape[2] * thick < max(array.shape[:2]) / _FLATTEST:
        thick = max(array.shape[:2]) / 2 / array.shape[2]
        notes.append("nor how far apart they are: the height is a guess")
    return Volume(array, (1.0, 1.0, thick), {"format": "folder of slices"}), notes


def _by(shape: Sequence[int]) -> str:
    return "x".join(str(size) for size in shape)
