"""Masks as strangers write them -> whole numbers on the grid of their image."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from .errors import BadImage, guarded
from .formats import Format, known_format
from .grid import Grid, onto, within
from .image import Image
from .nrrd_names import SUFFIX
from .volume import read, slices

WHOLE = 1e-3
"""How far a value may be from a whole number: scaling in a header leaves rounding errors."""
LOSSY = ("JPEG", "JPEG 2000", "WebP")
"""Formats that change values. Some can be lossless, and no header says whether a file is."""
_DARK, _BRIGHT, _BETWEEN = 64, 192, 0.02
"""Of a JPEG mask: grey values of its two sides, and the share of pixels that may lie between them."""


def read_label_map(
    files: Path | Sequence[Path], array: str | None = None, order: Sequence[int] = (), index: int | None = None
) -> tuple[np.ndarray, Grid | None]:
    """Whole numbers of one mask and the grid on which they lie; None for a picture.

    (X, Y, Z) in the axes of the file, or (H, W). Several files are slices; where the image's slices were sorted,
    `order` (`Image.order`) puts those of the mask in the same order. `index` is an entry of an array that holds one
    mask after the other, or a layer of a 3D Slicer segmentation. Of a palette picture the numbers are taken, not the
    colours; grey that is saved as colour is grey, and one colour on black is 1 on 0. Raises BadImage for other colours,
    for numbers that are not whole, and for a JPEG whose grey values are not clearly two.
    """
    paths = [files] if isinstance(files, Path) else list(files)
    if not paths:
        raise BadImage("no mask files")
    formats = [known_format(path) for path in paths]
    kept = [pair for pair in zip(paths, formats, strict=True) if len(paths) == 1 or not pair[1].companion]
    if len(kept) == 1 and index is not None and kept[0][0].name.lower().endswith(SUFFIX):
        image = guarded(kept[0][0], partial(layer, *kept[0], index))
    elif len(kept) == 1:
        image = guarded(kept[0][0], partial(stored, *kept[0], array, index))
    elif {found.reader for _, found in kept} == {"dicom"}:
        image = read([path for path, _ in kept])
    else:
        image = slices([(path, guarded(path, partial(stored, path, found, array, index))) for path, found in kept])
        if order:
            if sorted(order) != list(range(len(kept))):
                raise BadImage(f"{kept[0][0].name}: {len(kept)} slices of the mask, {len(order)} of the image")
            image = Image(image.array[:, :, list(order)], image.affine)
    name = kept[0][0].name
    if image.array.shape[-1] != 1:
        what = "is a colour picture: give its colours" if image.colour else f"has {image.array.shape[-1]} channels"
        raise BadImage(f"{name} {what}; a mask has one number a pixel (for colours there is the kind `palette`)")
    labels = whole(image.array[..., 0], name)
    if image.affine is None:
        return labels, None
    placed = all(found.kind == "dicom" for _, found in kept) or (len(kept) == 1 and kept[0][1].kind == "volume")
    return labels, Grid(labels.shape, image.affine if placed else None)


def stored(path: Path, found: Format, array: str | None, index: int | None = None) -> Image:
    """The numbers of one file, without making colours of a palette."""
    if found.reader == "tiff":
        from .tiff import read as read_tiff

        return one_coloured(read_tiff(path, stored=True))
    if found.reader == "pictures":
        from .pictures import numbers

        image = numbers(path) or read([path])
        return two_valued(image, path) if found.name in LOSSY else one_coloured(image)
    return read([path], array=array, index=index)


def one_coloured(image: Image) -> Image:
    """A picture of one colour on black as 1 on 0; any other as it is."""
    if image.array.shape[-1] != 3 or not image.colour:
        return image
    marked = np.any(image.array != 0, axis=-1)
    found = image.array[marked]
    one = len(found) and (found == found[0]).all()
    return Image(marked[..., None].astype(np.uint8), None) if one else image


def layer(path: Path, found: Format, index: int) -> Image:
    """One of the label maps of a 3D Slicer segmentation whose segments overlap. Raises BadImage."""
    image = stored(path, found, None)
    if index >= image.array.shape[-1]:
        raise BadImage(f"{path.name} has {image.array.shape[-1]} layer(s), its header tells of more; save it again")
    return Image(image.array[..., index : index + 1], image.affine)


def two_valued(image: Image, path: Path) -> Image:
    """A JPEG changes values: only one that is clearly black and white is a mask, 0 and 255. Raises BadImage."""
    values = image.array
    between = np.count_nonzero((values >= _DARK) & (values < _BRIGHT)) / max(1, values.size)
    bright = int(values.max()) >= _BRIGHT or not values.any()
    if values.shape[-1] != 1 or between > _BETWEEN or not bright or int(values.min()) >= _DARK:
        raise BadImage(
            f"{path.name} is of a format that changes the numbers of a mask (JPEG), and it is not clearly black (0) "
            "and white (255); save the masks as PNG"
        )
    return Image(np.where(values >= 128, 255, 0).astype(np.uint8), None)


def whole(values: np.ndarray, name: str) -> np.ndarray:
    """Integers of the same values. Raises BadImage that counts those that are not whole."""
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    if values.dtype.kind != "f":
        return values
    found: np.ndarray = np.rint(values)
    odd = np.abs(values - found) > WHOLE
    if count := int(np.count_nonzero(odd)):
        raise BadImage(
            f"{name} holds {count} value(s) that are not whole numbers, such as {float(values[odd][0]):.4g}; "
            "a mask has whole ones: resample it with nearest neighbours, or threshold it"
        )
    if np.abs(found).max(initial=0) >= 2**31:
        raise BadImage(f"{name} holds {float(np.abs(found).max()):.4g}, which is no label")
    return found.astype(np.int32)


def read_palette(path: Path, colors: Mapping[str, int]) -> np.ndarray:
    """(H, W) values of a colour picture by `colors`, `#rrggbb` -> value; black is 0 unless it is listed.

    Raises BadImage for a colour that is not listed, with how many pixels have it.
    """
    table = {(0, 0, 0): 0, **{parsed(colour): value for colour, value in colors.items()}}
    found = known_format(path)
    if found.name in LOSSY:
        raise BadImage(f"{path.name} is a {found.name}, which changes colours: save the masks as PNG")
    image = read([path])
    if image.affine is not None or image.array.dtype != np.uint8:
        raise BadImage(f"{path.name} is no colour picture of 8 bits")
    rgb = np.broadcast_to(image.array, (*image.array.shape[:2], 3)).astype(np.uint32)
    codes = rgb[..., 0] << 16 | rgb[..., 1] << 8 | rgb[..., 2]
    occurring, counts = np.unique(codes, return_counts=True)
    known = {red << 16 | green << 8 | blue: value for (red, green, blue), value in table.items()}
    unknown = sorted(((int(n), int(code)) for code, n in zip(occurring, counts, strict=True) if int(code) not in known))
    if unknown:
        listed = ", ".join(f"#{code:06x} ({count} pixels)" for count, code in unknown[::-1][:5])
        raise BadImage(f"{path.name} has {len(unknown)} colour(s) that no structure has: {listed}; list them, or black")
    values = np.array([known[int(code)] for code in occurring], np.int32)
    labels: np.ndarray = values[np.searchsorted(occurring, codes)]
    return labels


def parsed(colour: str) -> tuple[int, int, int]:
    digits = colour.strip().lstrip("#").lower()
    if len(digits) != 6 or any(digit not in "0123456789abcdef" for digit in digits):
        raise BadImage(f"{colour!r} is no colour; write it as #rrggbb")
    return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)


def on_image(labels: np.ndarray, grid: Grid | None, image: Image, name: str) -> np.ndarray:
    """Labels on the axes of `image`, 0 around a mask that was cut to what it marks. Raises BadImage where they lie on
    another grid."""
    try:
        if grid and (part := within(grid, image.grid)):
            turn, start = part
            whole, cut = np.zeros(image.grid.shape, labels.dtype), turn(labels)
            whole[tuple(slice(at, at + size) for at, size in zip(start, cut.shape, strict=True))] = cut
            return whole
        return onto(labels, grid or Grid(labels.shape), image.grid)
    except BadImage as error:
        raise BadImage(f"the mask {name} {error}; give the mask of this image, or resample it onto it") from error


def mapped(labels: np.ndarray, values: Mapping[str, int], name: str) -> np.ndarray:
    """Labels by a table of values: text of a value in the file -> value; 0 stays 0 unless it is listed, `nonzero` is
    all others, `*` keeps all. Raises BadImage for values of the file `name` that are in no row."""
    if "*" in values:
        return labels
    result = np.zeros(labels.shape, np.int32)
    if "nonzero" in values:
        result[labels != 0] = values["nonzero"]
    elif unknown := sorted({int(value) for value in np.unique(labels)} - {0, *map(int, values)}):
        listed = ", ".join(map(str, unknown[:5]))
        raise BadImage(
            f"{name} has {len(unknown)} value(s) that no structure has: {listed}; name them in `values`, and in `only` "
            "what is wanted where not all of it is"
        )
    for text, value in values.items():
        if text != "nonzero":
            result[labels == int(text)] = value
    return result
