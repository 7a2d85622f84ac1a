"""The look of a sample, from its files: small enough to be compared with all others.

Runs in the sandbox (`look_program`), on files of strangers: sizes are judged by headers before anything is decoded,
nothing that holds code (pickles) is opened, and whatever a decoder trips over makes a sample without a look.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from shared import maskfile
from shared.looks import FLAT, LENGTH, NOTHING, PICTURE, RECORD, SOLID, VOLUME, content_of

MAX_PIXELS = 64 << 20
"""Of one picture or slice."""
MAX_BYTES = 2 << 30
"""Of a volume's unpacked voxels."""
FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "DIB", "GIF", "WEBP", "PPM", "JPEG2000")
"""What pictures are read of; among the others are some for which PIL starts programs."""

Floats: TypeAlias = npt.NDArray[np.float32]
Open: TypeAlias = Callable[[str], AbstractContextManager[BinaryIO]]


def record_of(files: Sequence[str], digests: Iterable[bytes], open_file: Open) -> bytes:
    """One `RECORD` of a sample's images in slice order; `digests` are the SHA-256s of their contents."""
    record = np.zeros(1, RECORD)
    record["content"] = np.frombuffer(content_of(digests), np.uint8)
    record["kind"], record["look"] = look_of(files, open_file)
    return record.tobytes()


def look_of(files: Sequence[str], open_file: Open) -> tuple[int, npt.NDArray[np.uint8]]:
    """Kind and (LENGTH,) look of a sample's images in slice order; never raises for what they hold.

    Of a stack the slices in the middle of 16 equal parts are read, of a volume in one file all of it. Pictures, NIfTI,
    DICOM and .npy are read; of anything else, and of what is damaged or flat, there is NOTHING.
    """
    try:
        if len(files) == 1:
            with open_file(files[0]) as stream:
                grid = _single(stream)
        else:
            places = ((np.arange(VOLUME) + 0.5) * len(files) / VOLUME).astype(int)
            seen: dict[int, Floats] = {}
            for place in places:
                if place not in seen:
                    with open_file(files[place]) as stream:
                        seen[int(place)] = _slice(stream)
            grid = np.stack([seen[int(place)] for place in places])
    except Exception:
        # Whatever a decoder trips over in a stranger's file: the sample is told as not compared.
        return NOTHING, np.zeros(LENGTH, np.uint8)
    return _levels(grid)


def _levels(grid: Floats) -> tuple[int, npt.NDArray[np.uint8]]:
    low, high = np.percentile(grid, (1, 99))
    if not np.isfinite(grid).all() or high <= low:
        return NOTHING, np.zeros(LENGTH, np.uint8)
    levels = np.clip((grid - low) * (255 / (high - low)), 0, 255).round().astype(np.uint8).reshape(-1)
    return (FLAT if grid.ndim == 2 else SOLID), levels


def _single(stream: BinaryIO) -> Floats:
    start = stream.read(132)
    stream.seek(0)
    if maskfile.is_nifti(start[:4]):
        return _nifti(stream)
    if start[:6] == b"\x93NUMPY":
        return _frames(_npy(stream))
    if start[128:] == b"DICM":
        return _frames(_dicom(stream))
    return small(_picture(stream), PICTURE)


def _slice(stream: BinaryIO) -> Floats:
    start = stream.read(132)
    stream.seek(0)
    if start[128:] == b"DICM":
        array = _dicom(stream)
    elif start[:6] == b"\x93NUMPY":
        array = _npy(stream)
    else:
        return small(_picture(stream), VOLUME)
    if array.ndim != 2:
        raise ValueError("a slice has two axes")
    return small(array, VOLUME)


def small(picture: Any, edge: int) -> Floats:
    """A PIL image, or an array (rows, columns), to (edge, edge), smoothed as far as it shrinks."""
    from PIL import Image

    if not isinstance(picture, Image.Image):
        picture = Image.fromarray(np.ascontiguousarray(picture, dtype=np.float32))
    return np.asarray(picture.resize((edge, edge), Image.Resampling.BILINEAR), dtype=np.float32)


def _picture(stream: BinaryIO) -> Any:
    from PIL import Image

    image = Image.open(stream, formats=FORMATS)
    if image.width * image.height > MAX_PIXELS:
        raise ValueError("the picture is implausibly large")
    if image.mode.startswith("I"):
        return image.convert("F") if image.mode != "I;16B" else np.asarray(image)
    return image if image.mode in ("L", "F") else image.convert("L")


def _npy(stream: BinaryIO) -> npt.NDArray[Any]:
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    shape, fortran, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(stream)
    size = int(np.prod(shape, dtype=np.float64)) * dtype.itemsize
    if dtype.kind not in "iufb" or size > MAX_BYTES:
        raise ValueError("no plain numbers, or too many")
    flat = np.frombuffer(stream.read(size), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def _dicom(stream: BinaryIO) -> npt.NDArray[Any]:
    import pydicom

    found = pydicom.dcmread(stream)
    frames = int(found.get("NumberOfFrames") or 1)
    if int(found.Rows) * int(found.Columns) > MAX_PIXELS or frames * int(found.Rows) * int(found.Columns) > MAX_BYTES:
        raise ValueError("the image is implausibly large")
    array = np.asarray(found.pixel_array)
    # Colours are averaged; frames come first.
    return array.mean(axis=-1) if int(found.get("SamplesPerPixel") or 1) > 1 else array


def _frames(array: npt.NDArray[Any]) -> Floats:
    array = np.squeeze(array)
    if array.ndim == 2:
        return small(array, PICTURE)
    if array.ndim != 3:
        raise ValueError("neither a picture nor a volume")
    return _solid(iter(array), len(array))


def _nifti(stream: BinaryIO) -> Floats:
    """Axes turned to the patient's as nearly as the grid allows; one slice in memory at a time."""
    header = maskfile.read_header(stream, pictures=())
    if len(header.shape) == 2:
        [plane] = _planes(stream, header, header.voxels)
        return small(plane.reshape(header.shape, order="F").T, PICTURE)
    x, y, z = header.shape
    planes = (plane.reshape((x, y), order="F") for plane in _planes(stream, header, x * y))
    solid = _solid(planes, z).transpose(1, 2, 0)
    from nibabel.orientations import apply_orientation, io_orientation

    turns = io_orientation(header.affine)
    return solid if np.isnan(turns).any() else np.asarray(apply_orientation(solid, turns), dtype=np.float32)


def _planes(stream: BinaryIO, header: maskfile.MaskHeader, size: int) -> Iterator[npt.NDArray[Any]]:
    """Flat slices along the last axis."""
    rest: list[npt.NDArray[Any]] = []
    held = 0
    for piece in maskfile.nifti_values(stream, header):
        rest.append(piece)
        held += len(piece)
        if held >= size:
            joined = np.concatenate(rest)
            whole = len(joined) // size
            yield from joined[: whole * size].reshape(whole, size)
            rest = [joined[whole * size :]]
            held = len(rest[0])


def _solid(planes: Iterator[npt.NDArray[Any]], count: int) -> Floats:
    """(16, 16, 16), slices first: the mean of the slices that fall into each part, the nearest where none does."""
    total = np.zeros((VOLUME,) * 3, np.float32)
    times = np.zeros(VOLUME, np.float32)
    middles = ((np.arange(VOLUME) + 0.5) * count / VOLUME).astype(int)
    done = 0
    for plane in planes:
        parts = np.flatnonzero(middles == done)
        if count > VOLUME:
            parts = np.array([done * VOLUME // count])
        total[parts] += np.nan_to_num(small(plane, VOLUME))
        times[parts] += 1
        done += 1
    if done != count or not times.all():
        raise ValueError("slices are missing")
    return total / times[:, None, None]
