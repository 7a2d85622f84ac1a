"""Canonical files: one form for all images, whose bytes follow from values and affine alone.

A volume becomes `.nii.gz` in its nearest right, anterior, superior order, channels as the fourth axis; a picture
`.png` where its values fit (bytes or 16 bit of grey, bytes of colour), else lossless `.tif`. A mask is `.nii.gz` or
`.png` as its image is, in a form that the scorer reads without a decoder. Values take the smallest type that holds them
exactly. No text, name, time, padding or order of axes of the original is in it.
"""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from .errors import BadImage
from .grid import closest_ras, directions
from .image import Image, canonical

_TYPES = (np.uint8, np.int8, np.uint16, np.int16, np.int32)
GZIP_LEVEL = 1
"""As nibabel; higher levels take three times as long for a tenth of the size."""


def write_image(image: Image, path: Path) -> Path:
    """Write to `path` with the suffix added; returns that. Raises BadImage for values that are not finite."""
    array = smallest(image.array)
    if image.affine is not None:
        turned = canonical(image)
        assert turned.affine is not None
        array = closest_ras(image.affine)(array)
        return write_nifti(array[..., 0] if array.shape[-1] == 1 else array, turned.affine, path)
    channels = array.shape[-1]
    if (channels == 1 and array.dtype in (np.uint8, np.uint16)) or (image.colour and array.dtype == np.uint8):
        return write_png(array[..., 0] if channels == 1 else array, path)
    return write_tiff(array, image.colour, path)


def write_mask(labels: np.ndarray, image: Image, path: Path) -> Path:
    """Write whole numbers, (X, Y, Z) or (H, W) on the axes of `image`, so that they lie on its canonical file's grid.

    Returns the path with its suffix. Raises BadImage for another shape, and for values that no mask has.
    """
    if labels.shape != image.array.shape[:-1]:
        raise BadImage(f"the mask has shape {labels.shape} where the image has {image.array.shape[:-1]}")
    array = smallest(labels)
    if array.dtype.kind not in "iu":
        raise BadImage("the mask holds values that are not whole numbers")
    if image.affine is not None:
        turned = canonical(image)
        assert turned.affine is not None
        return write_nifti(closest_ras(image.affine)(array), turned.affine, path)
    if array.dtype not in (np.uint8, np.uint16):
        raise BadImage(f"the mask holds values from {array.min()} to {array.max()}; a picture's are 0 to 65535")
    return write_plain_png(array, path)


def smallest(array: np.ndarray) -> np.ndarray:
    """The same values in the smallest of uint8, int8, uint16, int16, int32 that holds them all, else float32."""
    low, high = (array.min(), array.max()) if array.size else (0, 0)
    if not np.isfinite(low) or not np.isfinite(high):
        raise BadImage("holds NaN or infinite values, which no canonical file has")
    for kind in _TYPES:
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            if array.dtype == kind:
                return array
            if array.dtype.kind in "biu":
                return array.astype(kind)
            # Most float images are not whole, and a few values tell.
            few = array.flat[:1000]
            if np.array_equal(few.astype(kind), few) and np.array_equal(whole := array.astype(kind), array):
                return whole
            break
    return array.astype(np.float32, copy=False) + np.float32(0)  # minus zero becomes zero


def write_nifti(array: np.ndarray, affine: np.ndarray, path: Path, level: int = GZIP_LEVEL) -> Path:
    import nibabel

    target = path.with_name(path.name + ".nii.gz")
    header = nibabel.Nifti1Header()
    header.set_data_shape(array.shape)
    header.set_data_dtype(array.dtype)
    header.set_xyzt_units("mm")
    header.set_sform(affine, 1)
    # For programs that take the place from there; it holds no sheared affine.
    square = np.abs(directions(affine).T @ directions(affine) - np.eye(3)).max() < 1e-4
    header.set_qform(affine, 1 if square else 0, strip_shears=True)
    header["pixdim"][1:4] = np.linalg.norm(affine[:3, :3], axis=0)
    header.set_slope_inter(1, 0)
    header["magic"] = b"n+1"
    header.set_data_offset(352)
    with target.open("wb") as raw, gzip.GzipFile("", "wb", level, raw, mtime=0) as file:
        file.write(header.binaryblock + b"\0" * 4)
        for index in np.ndindex(*array.shape[:1:-1]):  # a plane at a time: no copy of the whole
            file.write(array[(..., *index[::-1])].tobytes(order="F"))
    return target


def write_png(array: np.ndarray, path: Path) -> Path:
    from PIL import Image as Pillow

    target = path.with_name(path.name + ".png")
    # Runs and frequencies only: no match is worth its search in filtered pixels. Twice as fast as level 4, no larger.
    Pillow.fromarray(np.ascontiguousarray(array)).save(target, compress_level=1, compress_type=zlib.Z_RLE)
    return target


def write_plain_png(array: np.ndarray, path: Path, level: int = GZIP_LEVEL) -> Path:
    """A grey PNG of uint8 or uint16 whose rows are not filtered: masks get smaller so, and reading takes no decoder."""
    target = path.with_name(path.name + ".png")
    depth = array.dtype.itemsize
    rows = np.zeros((array.shape[0], 1 + depth * array.shape[1]), np.uint8)
    rows[:, 1:] = np.ascontiguousarray(array, f">u{depth}").view(np.uint8)
    header = struct.pack(">IIBBBBB", array.shape[1], array.shape[0], 8 * depth, 0, 0, 0, 0)
    with target.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), level)), (b"IEND", b"")):
            file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return target


def write_tiff(array: np.ndarray, colour: bool, path: Path) -> Path:
    import tifffile

    target = path.with_name(path.name + ".tif")
    single = array.shape[-1] == 1
    tifffile.imwrite(
        target,
        np.ascontiguousarray(array[..., 0] if single else array),
        photometric="rgb" if colour else "minisblack",
        planarconfig=None if single else "contig",
        compression="zlib",
        compressionargs={"level": 4},
        metadata=None,
        software=False,
        byteorder="<",
    )
    return target
