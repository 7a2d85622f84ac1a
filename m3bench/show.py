"""Pictures of replicas: some cases, in three planes, without and with the mask in colour; or some of every replica."""

import colorsys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from m3bench.readers.arrays import is_image
from m3bench.readers.samples import Sample, samples, truth_of
from m3bench.replicas import ReplicaError, find

TILE = 150
ACROSS = 5
_BROKEN = (OSError, EOFError, ValueError)
"""What reading a damaged file raises: a replica has some on purpose."""
Picture = NDArray[np.uint8]


def montage(folder: Path, output: Path, *, cases: int = 4) -> int:
    """Write a PNG with one pair of rows a case, spread over the dataset; returns how many cases it shows.

    Volumes are turned so that the patient's head is up and the right side is on the left. Raises ReplicaError.
    """
    bands = [_rows(sample) for sample in _spread(_found(folder), cases)]
    if not bands:
        raise ReplicaError(f"none of the files tried in {folder} can be read; ask for more cases")
    _save(bands, output)
    return len(bands)


def overview(folders: Sequence[Path], output: Path, *, cases: int = 1) -> int:
    """Write a PNG of several replicas, a titled band for each: `cases` of volumes, five times as many of pictures."""
    bands, count = [], 0
    for folder in folders:
        if not folder.is_dir():
            raise ReplicaError(f"{folder} is not there; `m3bench make all` writes the folder that holds them all")
        chosen = list(_spread(_found(folder), ACROSS * cases))
        if not chosen:
            raise ReplicaError(f"none of the files tried in {folder} can be read")
        flat = [sample for sample in chosen if sample.image().ndim == 2]
        picked = flat or chosen[: max(1, cases)]
        key = truth_of(folder)["replica"]
        lines = [f"{key}: {find(key)[1].summary}", *(_words(sample) for sample in picked[:2] if _words(sample))]
        bands.append(_caption(lines))
        if flat:
            rows = [_rows(sample) for sample in flat]
            tallest = max(row.shape[0] for row in rows)
            tiles = [np.pad(row, ((0, tallest - row.shape[0]), (0, 0), (0, 0))) for row in rows]
            bands += [
                np.concatenate(tiles[at : at + ACROSS], axis=1, dtype=np.uint8) for at in range(0, len(tiles), ACROSS)
            ]
        else:
            bands += [_rows(sample) for sample in picked]
        count += len(picked)
    _save(bands, output)
    return count


def _found(folder: Path) -> list[Sample]:
    """What the truth beside the dataset knows of it; without truth, or in the original's layout, what can be read."""
    truth = truth_of(folder) if folder.with_name(folder.name + ".truth.json").is_file() else {}
    if truth.get("layout") == "paper":
        found = samples(folder)
    else:
        masks = {folder / case["image"]: folder / case["mask"] for case in truth.get("cases", []) if case.get("mask")}
        paths = sorted(path for path in folder.rglob("*") if is_image(path))
        series = sorted({path.parent for path in paths if path.suffix == ".dcm"})
        found = [Sample("", tuple(sorted(each.glob("*.dcm")))) for each in series]
        found += [Sample("", (path,), mask=masks.get(path)) for path in paths if path.suffix != ".dcm"]
        found = [sample for sample in found if sample.mask] or found
    if not found:
        raise ReplicaError(f"{folder} has no NIfTI file, no picture and nothing else that could be shown")
    return found


def _spread(found: Sequence[Sample], count: int) -> Iterator[Sample]:
    for pick in np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int).tolist():
        with suppress(*_BROKEN):
            found[pick].image()
            yield found[pick]


def _words(sample: Sample) -> str:
    return sample.text or (f"[{sample.label}]" if sample.label else "")


def _rows(sample: Sample) -> Picture:
    volume = sample.image()
    labels = np.zeros(volume.shape, int) if sample.mask is None else sample.labels()
    grey = _window(volume, labels)
    planes = _planes(labels) if volume.ndim == 3 else [(slice(None), slice(None))]
    plain = [_tile(np.repeat(grey[plane][..., None], 3, axis=-1)) for plane in planes]
    if sample.mask is None:
        return np.concatenate(plain, axis=1)
    coloured = [_tile(_overlay(grey[plane], labels[plane])) for plane in planes]
    return np.concatenate([np.concatenate(plain, axis=1), np.concatenate(coloured, axis=1)])


def _planes(labels: NDArray[np.int_]) -> list[tuple[Any, ...]]:
    """Three axial planes, one coronal and one sagittal, where most of the mask is; the middle without one."""
    at = np.argwhere(labels) if labels.any() else np.indices(labels.shape).reshape(3, -1).T
    axial = [(int(np.quantile(at[:, 0], share)),) for share in (0.25, 0.5, 0.75)]
    coronal, sagittal = (int(np.median(at[:, axis])) for axis in (1, 2))
    return [*axial, (slice(None), coronal), (slice(None), slice(None), sagittal)]


def _window(volume: NDArray[Any], labels: NDArray[np.int_]) -> Picture:
    """Grey values around those of the labelled structures, or from the darkest to the brightest; pictures as is."""
    if volume.dtype == np.uint8:
        return np.asarray(volume)
    low, middle, high = np.percentile(volume[labels > 0] if labels.any() else volume, [5, 50, 95]).tolist()
    if labels.any():
        reach = max(high - low, 1e-3) * 2
        low, high = middle - reach, middle + reach
    else:
        low, high = np.percentile(volume, [1, 99.5]).tolist()
    scaled: Picture = (255 * np.clip((volume - low) / max(high - low, 1e-3), 0, 1)).astype(np.uint8)
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


def _caption(lines: Sequence[str]) -> Picture:
    from PIL import Image, ImageDraw

    wrapped = [part for line in lines for part in textwrap.wrap(line, 120)[:2]]
    picture = Image.new("RGB", (ACROSS * (TILE + 2), 15 * len(wrapped) + 6))
    for number, line in enumerate(wrapped):
        ImageDraw.Draw(picture).text((3, 3 + 15 * number), line, fill="white" if number else "yellow")
    return np.asarray(picture)


def _save(bands: Sequence[Picture], output: Path) -> None:
    from PIL import Image

    widest = max(band.shape[1] for band in bands)
    filled = [np.pad(band, ((0, 6), (0, widest - band.shape[1]), (0, 0))) for band in bands]
    output.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.concatenate(filled)).save(output)
