"""What a model is given and gives back: the files of one INPUT -> an image with its channels; masks and score maps ->
files on the image's own grid."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .formats import format_of
from .inputs import views_of
from .volume import BadImage, Image, grey, read, stack
from .write import smallest, write_nifti, write_png


def load_image(files: Sequence[Path], channels: int = 0) -> Image:
    """The image of one INPUT, in the axes of its file.

    Several volumes, DICOM series, pictures or arrays are a channel each, in order of their first files, on one grid;
    where the model takes another number of `channels` than there are pictures or arrays, these are slices of one
    volume. A fourth axis holds channels. Raises BadImage.
    """
    if not files:
        raise BadImage("no files")
    kinds = {one.kind for one in map(format_of, files) if one}
    images = views_of(files, 2 if kinds <= {"picture", "array"} else 3)
    if len(images) == 1 or (kinds <= {"picture", "array"} and channels not in (0, len(images))):
        return read([path for image in images for path in image], axis4="channels")
    return stack([grey(read(image)) for image in images], [image[0].name for image in images])


def write_mask(image: Image, mask: np.ndarray, folder: Path, stem: str) -> str:
    """Write whole numbers on the axes of `image`, (X, Y, Z) or (H, W); returns the file's name. A picture becomes a
    PNG, a volume a NIfTI with the shape and affine of its input."""
    return write(image, smallest(mask), folder / stem)


def write_scores(image: Image, scores: np.ndarray, folder: Path, stem: str) -> str:
    """Write what is 0 to 1 on the axes of `image`; returns the file's name. A picture becomes a PNG of 16 bits (65535
    is 1), a volume a float32 NIfTI."""
    flat = image.affine is None
    values = np.rint(np.clip(scores, 0, 1) * 65535).astype(np.uint16) if flat else scores.astype(np.float32)
    return write(image, values, folder / f"{stem}-score")


def write(image: Image, array: np.ndarray, path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    return (write_png(array, path) if image.affine is None else write_nifti(array, image.affine, path)).name


def free_name(stem: str, taken: set[str]) -> str:
    """`stem`, or with -2, -3, ... where that is `taken`, to which the name is added."""
    found, number = stem, 1
    while found in taken:
        number += 1
        found = f"{stem}-{number}"
    taken.add(found)
    return found
