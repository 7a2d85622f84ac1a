"""A picture of a replica: some cases, each with slices in three planes, without and with the mask in colour."""

import colorsys
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3bench.replicas import ReplicaError

TILE = 150
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp")
Picture = NDArray[np.uint8]


def montage(folder: Path, output: Path, *, cases: int = 4) -> int:
    """Write a PNG with one pair of rows a case, spread over the dataset; returns how many cases it shows.

    Volumes are turned so that the patient's head is up and the right side is on the left. Raises ReplicaError.
    """
    from PIL import Image

    found = _pairs(folder)
    if not found:
        raise ReplicaError(f"{folder} has no NIfTI file and no picture that could be shown")
    rows = []
    for pick in np.linspace(0, len(found) - 1, min(cases, len(found))).round().astype(int):
        # A replica has broken files on purpose.
        with suppress(OSError, EOFError):
            rows.append(_rows(*found[pick]))
    if not rows:
        raise ReplicaError(f"none of the files tried in {folder} can be read; ask for more cases")
    widest = max(row.shape[1] for row in rows)
    filled = [np.pad(row, ((0, 6), (0, widest - row.shape[1]), (0, 0))) for row in rows]
    output.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.concatenate(filled)).save(output)
    return len(rows)


def _pairs(folder: Path) -> list[tuple[Path, Path | None]]:
    """Images with their masks as the truth beside the dataset names them; without it, whatever can be read."""
    truth = folder.with_name(folder.name + ".truth.json")
    cases = json.loads(truth.read_text(encoding="utf-8")).get("cases", []) if truth.is_file() else []
    named = [
        (folder / case["image"], folder / case["mask"] if case.get("mask") else None)
        for case in cases
        if "image" in case
    ]
    known = [(image, mask) for image, mask in named if image.is_file() and _shown(image)]
    if known:
        return [pair for pair in known if pair[1] is not None] or known
    return [(path, None) for path in sorted(folder.rglob("*")) if not path.name.startswith(".") and _shown(path)]


def _shown(path: Path) -> bool:
    return path.name.lower().endswith((".nii", ".nii.gz", *_PICTURES))


def _rows(image: Path, mask: Path | None) -> Picture:
    volume = _read(image)
    labels = np.zeros(volume.shape, int) if mask is None else np.rint(_read(mask)).astype(int)
    grey = _window(volume, labels)
    planes = _planes(labels) if volume.ndim == 3 else [(slice(None), slice(None))]
    plain = [_tile(np.repeat(grey[plane][..., None], 3, axis=-1)) for plane in planes]
    if mask is None:
        return np.concatenate(plain, axis=1)
    coloured = [_tile(_overlay(grey[plane], labels[plane])) for plane in planes]
    return np.concatenate([np.concatenate(plain, axis=1), np.concatenate(coloured, axis=1)])


def _read(path: Path) -> NDArray[Any]:
    """A picture (rows, columns), or a volume (slices from the head, rows from the front, columns from the right)."""
    if path.name.lower().endswith(_PICTURES):
        from PIL import Image

        with Image.open(path) as picture:
            return np.asarray(picture.convert("L") if picture.mode in ("RGB", "RGBA") else picture)
    import nibabel

    upright = nibabel.as_closest_canonical(nibabel.load(path))
    return np.asarray(upright.dataobj).transpose(2, 1, 0)[::-1, ::-1, ::-1]


def _planes(labels: NDArray[np.int_]) -> list[tuple[Any, ...]]:
    """Three axial planes, one coronal and one sagittal, where most of the mask is; the middle without one."""
    at = np.argwhere(labels) if labels.any() else np.indices(labels.shape).reshape(3, -1).T
    axial = [(int(np.quantile(at[:, 0], share)),) for share in (0.25, 0.5, 0.75)]
    coronal, sagittal = (int(np.median(at[:, axis])) for axis in (1, 2))
    return [*axial, (slice(None), coronal), (slice(None), slice(None), sagittal)]


def _window(volume: NDArray[Any], labels: NDArray[np.int_]) -> Picture:
    """Grey values around those of the labelled structures, or of everything that is not background."""
    of_interest = volume[labels > 0] if labels.any() else volume[volume > volume.min()]
    low, middle, high = np.percentile(of_interest, [5, 50, 95]) if of_interest.size else (0, 0, 1)
    reach = max(high - low, 1e-3) * 2
    scaled: Picture = (255 * np.clip((volume - (middle - reach)) / (2 * reach), 0, 1)).astype(np.uint8)
    return scaled


def _overlay(grey: Picture, labels: NDArray[np.int_]) -> Picture:
    # The golden ratio keeps the hues of neighbouring values apart.
    colours = (
        np.array([colorsys.hsv_to_rgb(0.618 * value % 1, 0.75, 1) for value in range(int(labels.max()) + 1)]) * 255
    )
    mixed = np.where((labels > 0)[..., None], 0.5 * grey[..., None] + 0.5 * colours[labels], grey[..., None])
    picture: Picture = mixed.astype(np.uint8)
    return picture


def _tile(picture: Picture) -> Picture:
    from PIL import Image

    return np.pad(
        np.asarray(Image.fromarray(picture).resize((TILE, TILE), Image.Resampling.NEAREST)), ((1, 1), (1, 1), (0, 0))
    )
