"""One case: its files decoded, checked, measured and written in canonical form."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from shared.contracts.cases import CaseSpec, Part
from shared.dataset.intake.decode_masks import label_map
from shared.dataset.intake.intake_records import LeftOut, Order, Taken
from shared.dataset.intake.looks_of import record_of
from shared.dataset.intake.wrapping import wrapping
from shared.imaging.units import looks_like_hu
from shared.imaging.volume import BadImage, Image, as_picture, canonical, read, stack
from shared.imaging.write import smallest, write_image, write_mask

Array: TypeAlias = npt.NDArray[Any]

SHARES = (0.5, 50.0, 99.5)
"""Percentiles that are measured."""
_SAMPLE = 1 << 18
"""Values that percentiles are taken of, evenly spread over an image."""
_MEASURED = 20
"""Structures of a mask whose values are measured."""
_LONGEST = 400
MOST_VALUES = 1000
"""Of one mask: more are no structures but numbers of single objects."""


def take(n: int, spec: CaseSpec, root: Path, order: Order, folder: Path) -> tuple[Taken, bytes]:
    """Write a case into `folder`; its record, and its `shared.looks.RECORD`. Raises LeftOut."""
    try:
        return _take(n, spec, root, order, folder)
    except (LeftOut, MemoryError):
        raise
    except BadImage as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from None
        raise LeftOut(_unnamed(str(error), spec, root)) from None
    except Exception as error:
        # Whatever a decoder trips over in a stranger's file.
        # Its words may quote the file.
        text = f"its files are damaged ({type(error).__name__} while reading); save them again with another program"
        raise LeftOut(text) from None


def _take(n: int, spec: CaseSpec, root: Path, order: Order, folder: Path) -> tuple[Taken, bytes]:
    stored = [_read(channels, spec, root, order) for channels in spec.images]
    views = [_fitting(view, order.dimensions) for view in stored]
    facts, *_ = [_measured(view) for view in views]
    written = [
        write_image(view, folder / (f"image_{number}" if number else "image")) for number, view in enumerate(views)
    ]
    facts["views"] = len(views)
    around = wrapping(spec, root, stored, sum(path.stat().st_size for path in written))
    mask, counts = None, {}
    if spec.masks or order.masks:
        labels = label_map(spec, stored[0], root)
        # Through the same turn as its image, which may have become a picture.
        marked = _fitting(replace(stored[0], array=labels[..., None], colour=False, channels=()), order.dimensions)
        mask = write_mask(marked.array[..., 0], views[0], folder / "mask").name
        counts = _counts(labels)
        if len(counts) > MOST_VALUES:
            raise LeftOut(f"has a mask of {len(counts)} different values; say in `values` which structures they are")
        facts["label_voxels"] = {str(value): count for value, count in counts.items()}
        facts["percentiles_inside"] = _inside(stored[0].array, labels, counts)
    names = tuple(path.name for path in written)
    taken = Taken(n=n, images=names, mask=mask, values=tuple(counts), facts=facts, wrapping=around)
    return taken, record_of(views)


def _read(channels: Sequence[Part], spec: CaseSpec, root: Path, order: Order) -> Image:
    images = [
        read(
            [root / file for file in part.files],
            array=part.array,
            index=part.index,
            axis4=order.axis4,
            slope=spec.slope,
            intercept=spec.intercept,
            # Slices that are missing matter where a mask is to fit.
            uneven="refuse" if spec.masks or order.masks else "accept",
        )
        for part in channels
    ]
    image = images[0] if len(images) == 1 else stack(images, [part.files[0] for part in channels])
    return replace(image, array=smallest(image.array))


def _fitting(image: Image, dimensions: int) -> Image:
    """The image where it has as many dimensions as the rules say, or is one slice of a picture. Raises LeftOut."""
    if dimensions == 3 and image.affine is None:
        raise LeftOut("is a picture, and the rules are for volumes; let `case` join its slices, or set `dimensions: 2`")
    if dimensions == 2 and image.affine is not None and 1 not in image.array.shape[:3]:
        raise LeftOut("is a volume, and the rules are for pictures; set `dimensions: 3`, or save slices as pictures")
    return as_picture(image) if dimensions == 2 else image


def _measured(image: Image) -> dict[str, JsonValue]:
    """Facts of an image. Raises LeftOut for one that shows nothing."""
    array = image.array
    low, high = array.min(), array.max()
    if low == high:
        raise LeftOut("holds one value only, so it shows nothing; remove it, or export it again")
    samples = [_sample(array)] if array.shape[-1] == 1 else [_sample(array[..., n]) for n in range(array.shape[-1])]
    turned = canonical(image)
    *edges, channels = turned.array.shape
    # Of a picture width and height, of a volume x, y and z.
    shape = edges if image.affine is not None else edges[::-1]
    return {
        "dimensions": len(edges),
        "shape": [int(edge) for edge in shape],
        "spacing": _spacing(turned),
        "channels": int(channels),
        "dtype": str(array.dtype),
        "percentiles": [round(float(value), 6) for one in samples for value in np.percentile(one, SHARES)],
        "low": float(low),
        "high": float(high),
        "hu": bool(image.affine is not None and (image.hu_known or looks_like_hu(samples[0]))),
    }


def _sample(array: Array) -> Array:
    """Flat; a step of an odd number, so that it does not run along one column."""
    flat = array.reshape(-1, order="A") if array.flags.f_contiguous or array.flags.c_contiguous else array.ravel()
    step = flat.size // _SAMPLE
    return flat[:: step | 1] if step > 1 else flat


def _spacing(image: Image) -> list[JsonValue] | None:
    if image.affine is None:
        return None
    return [round(edge, 6) for edge in image.grid.spacing]


def _counts(labels: Array) -> dict[int, int]:
    """Value -> voxels, without 0, ascending."""
    if int(labels.max()) < 1 << 16:
        counts = np.bincount(labels.ravel())
        return {int(value): int(counts[value]) for value in np.flatnonzero(counts) if value}
    values, times = np.unique(labels, return_counts=True)
    return {int(value): int(count) for value, count in zip(values, times, strict=True) if value}


def _inside(array: Array, labels: Array, counts: Mapping[int, int]) -> dict[str, JsonValue]:
    """Value of a structure -> percentiles of the image inside of it, of one channel after the other."""
    found: dict[int, list[Array]] = {value: [] for value in list(counts)[:_MEASURED]}
    for plane, marked in zip(array, labels, strict=True):  # a slab at a time: places of a whole volume are large
        at = np.flatnonzero(marked)
        values, greys = marked.ravel()[at], plane.reshape(-1, plane.shape[-1])
        for value in np.intersect1d(values, list(found)):
            inside = at[values == value]
            found[int(value)].append(greys[inside[:: counts[int(value)] // _SAMPLE | 1]])
    return {
        str(value): [round(float(one), 6) for one in np.percentile(np.concatenate(some), SHARES, axis=0).T.ravel()]
        for value, some in found.items()
    }


def _unnamed(text: str, spec: CaseSpec, root: Path) -> str:
    """What readers say, without the names of files: it is told of many cases at once, and behind the lock."""
    images = [file for channels in spec.images for part in channels for file in part.files]
    for file in (*images, *(file for mask in spec.masks for file in mask.files)):
        for name in (str(root / file), file, file.rpartition("/")[2]):
            text = text.replace(name, "a file")
    text = " ".join(text.replace(str(root), "the dataset").split())[:_LONGEST]
    return text if ";" in text or ":" in text else f"{text}; mend its files, or exclude them by a rule"
