"""Files of one image, whatever their format -> an `Image`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from .errors import LARGEST, BadImage, bounded, guarded, shown
from .formats import Format, known_format
from .grid import difference, onto
from .image import (
    Image,
    as_picture,
    canonical,
    channels_first,
    coloured,
    fitted,
    from_dhw,
    grey,
    size_dhw,
    spacing_dhw,
    to_dhw,
)
from .nifti import Axis4
from .sampling import sampled
from .units import rescaled

__all__ = [
    "Axis4", "BadImage", "Image", "as_picture", "canonical", "channels_first", "coloured", "fitted", "from_dhw", "grey",
    "read", "size_dhw", "spacing_dhw", "stack", "to_dhw",
]  # fmt: skip


def read(
    files: Sequence[Path],
    *,
    array: str | None = None,
    axis4: Axis4 = "refuse",
    slope: float | None = None,
    intercept: float | None = None,
    several: Literal["slices", "views"] = "slices",
    uneven: Literal["refuse", "accept"] = "refuse",
    most: int = LARGEST,
    index: int | None = None,
) -> Image:
    """One channel of one image.

    Several files are slices in the order given, but DICOM, which is sorted by position. `array` names one of several
    arrays of a file, `index` an entry of one that holds one image after the other. `axis4` says what a fourth axis
    holds. `slope` and `intercept` are a table's, see `units.rescaled`; DICOM has its own. `several="views"` refuses
    more than one file: views are images of their own. `uneven="accept"` takes a DICOM series with gaps as if its slices
    were even: good enough where no mask is to fit. More than `most` bytes are refused before they are decoded. Raises
    BadImage.
    """
    paths = [Path(file) for file in files]
    formats = [known_format(path) for path in paths]
    kept = [(path, found) for path, found in zip(paths, formats, strict=True) if len(paths) == 1 or not found.companion]
    if not kept:
        raise BadImage("no files")
    readers = {found.reader for _, found in kept}
    if len(kept) > 1 and several == "views":
        raise BadImage(f"{kept[0][0].name} and {len(kept) - 1} more: views are read one by one")
    if readers == {"dicom"}:
        from .dicom import read as read_dicom

        series = [path for path, _ in kept]
        image = guarded(series[0], lambda: read_dicom(series, axis4, uneven, most), series)
    elif len(kept) == 1:
        image = read_one(*kept[0], array, axis4, most, index)
    elif readers <= {"pictures", "tiff", "arrays"}:
        image = slices([(path, read_one(path, found, array, axis4, most, index)) for path, found in kept], most)
    else:
        names = ", ".join(sorted({found.name for _, found in kept}))
        raise BadImage(
            f"{kept[0][0].name} and {len(kept) - 1} more files ({names}) are no slices of one image; give one volume a "
            "file, or name each channel's files apart"
        )
    image = replace(image, array=tidy(image.array))
    finite(image, kept[0][0])
    if readers != {"dicom"}:
        image = replace(image, array=rescaled(image.array, slope, intercept, doubtful=readers <= {"nifti", "itk"}))
    return image


def read_one(path: Path, found: Format, array: str | None, axis4: Axis4, most: int, index: int | None = None) -> Image:
    if index is not None and found.reader != "arrays":
        raise BadImage(f"{path.name} is no file of arrays, so it has no entries")

    def call() -> Image:
        if found.reader == "nifti":
            from .nifti import read as read_nifti

            return read_nifti(path, axis4, most)
        if found.reader == "itk":
            from .itk import read as read_itk

            return read_itk(path, axis4, most)
        if found.reader == "arrays":
            if index is not None:
                from .entries import read as read_entry

                return read_entry(path, index, array, axis4, most)
            from .arrays import read as read_array

            return read_array(path, array, axis4, most)
        if found.reader == "tiff":
            from .tiff import read as read_tiff

            return read_tiff(path, axis4, most)
        from .pictures import read as read_picture

        return read_picture(path, most)

    return guarded(path, call)


def slices(planes: Sequence[tuple[Path, Image]], most: int = LARGEST) -> Image:
    """Pictures as slices of one volume without a place of its own, the first at the bottom. Raises BadImage."""
    first_path, first = planes[0]
    for path, plane in planes:
        if plane.affine is not None:
            raise BadImage(f"{path.name} is a volume of its own; one of several files is expected to be a slice")
        if plane.array.shape[:2] != first.array.shape[:2]:
            sizes = f"{shown(plane.array.shape[1::-1])} pixels, {first_path.name} {shown(first.array.shape[1::-1])}"
            raise BadImage(
                f"{path.name} has {sizes}: slices of one volume are of one size; resize them, or leave it out"
            )
    colour = any(plane.colour for _, plane in planes)
    pictures = [coloured(plane).array if colour else plane.array for _, plane in planes]
    if len({picture.shape[2] for picture in pictures}) > 1:
        raise BadImage(f"{first_path.name} and the others differ in their number of channels")
    bounded((len(pictures), *pictures[0].shape), pictures[0].itemsize, most)
    return Image(np.stack(pictures).transpose(2, 1, 0, 3), np.eye(4), colour=colour, order=tuple(range(len(planes))))


def stack(images: Sequence[Image], names: Sequence[str]) -> Image:
    """Channels on the grid of the first, whatever the axis order of the others; one on another grid is sampled there by
    its place in space. Raises BadImage where it has none, or lies elsewhere."""
    first = images[0]
    joined = []
    for image, name in zip(images, names, strict=True):
        if image.array.shape[-1] != 1 and len(images) > 1:
            raise BadImage(f"channel {name} has {image.array.shape[-1]} channels of its own; one is expected")
        try:
            if difference(image.grid, first.grid) is None or image.affine is None or first.affine is None:
                joined.append(onto(image.array, image.grid, first.grid))
            else:
                joined.append(sampled(image.array[..., 0], image.grid, first.grid)[..., None])
        except BadImage as error:
            raise BadImage(f"channel {name} {error}; resample it onto {names[0]}") from error
    known = all(image.hu_known for image in images)
    return replace(first, array=np.concatenate(joined, -1), channels=tuple(names), colour=False, hu_known=known)


def tidy(array: np.ndarray) -> np.ndarray:
    """Native bytes; bool as uint8, wide integers as int32 where they fit, everything else float32."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return array.astype(np.float32, copy=False)
    if array.dtype.itemsize > 4 or array.dtype == np.uint32:
        fits = int(array.min()) >= -(2**31) and int(array.max()) < 2**31
        return array.astype(np.int32 if fits else np.float32)
    return array


def finite(image: Image, path: Path) -> None:
    """Raises BadImage that says where values are NaN or infinite."""
    if image.array.dtype.kind != "f" or np.isfinite(image.array.sum(dtype=np.float64)):
        return
    bad = ~np.isfinite(image.array)
    if count := int(np.count_nonzero(bad)):
        where = tuple(int(place) for place in np.unravel_index(int(bad.argmax()), bad.shape))[:-1]
        if image.affine is None:
            where = where[::-1]
        raise BadImage(
            f"{path.name}: {count} value(s) are NaN or infinite, the first at voxel {where}; write a number there, "
            "such as that of the background"
        )
