"""Is this an image, and does it open? Light looks at files, without loading volumes. Runs in the sandbox.

PIL is imported for PNG, JPEG, BMP and TIFF only; NIfTI, DICOM and NumPy headers are read by hand.
"""

import gzip
import os
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

PICTURE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff"})
IMAGE_SUFFIXES = PICTURE_SUFFIXES | {".nii", ".nii.gz", ".dcm", ".npy", ".npz", ".mha", ".nrrd", ".pt", ".pck"}
"""Lower case; see `suffix_of`."""

_CLUTTER = frozenset({"__macosx", "thumbs.db", "desktop.ini"})
_CHUNK = 1 << 20


@dataclass(frozen=True)
class ImageFacts:
    error: str | None
    size: str | None = None
    """`96x96` (width x height) for pictures, `64x64x32` in stored axis order for volumes."""
    low: float | None = None
    high: float | None = None
    """Stored values of pictures; None where they would cost a full read."""


def is_hidden(name: str) -> bool:
    """Whether a name, or any part of a relative path, is clutter: `._*` and other dot names, __MACOSX, Thumbs.db."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return any((part.startswith(".") and part not in (".", "..")) or part.lower() in _CLUTTER for part in parts)


def suffix_of(name: str) -> str:
    """Lower-case suffix; `.nii.gz` is one suffix, other double suffixes (`.dcm.png`) give the last."""
    lower = name.lower()
    return ".nii.gz" if lower.endswith(".nii.gz") else PurePosixPath(lower).suffix


def readable(path: str | Path) -> str | None:
    """None when the file opens, else what is wrong with it. Never raises for a bad file.

    Pictures are decoded whole, compressed NIfTI is checked against its CRC and its header, DICOM, NumPy and others by
    magic and length only. A file of an unknown kind is fine when it can be read and is not empty.
    """
    return inspect_image(path).error


def inspect_image(path: str | Path) -> ImageFacts:
    """`readable` together with what the look cost nothing more to learn."""
    path = Path(path)
    suffix = suffix_of(path.name)
    try:
        if path.stat().st_size == 0:
            return ImageFacts("the file is empty")
        if suffix in PICTURE_SUFFIXES:
            return _picture(path)
        with path.open("rb") as stream:
            if suffix == ".nii.gz":
                return ImageFacts(None, _nifti_gz(stream))
            if suffix == ".nii":
                return ImageFacts(None, _nifti(stream.read(540), path.stat().st_size))
            if suffix == ".npy":
                return ImageFacts(None, _npy(stream, path.stat().st_size))
            if suffix == ".npz" and (bad := zipfile.ZipFile(stream).testzip()):
                return ImageFacts(f"member {bad} of the archive is damaged")
            if suffix == ".dcm" and stream.read(132)[128:] != b"DICM":
                return ImageFacts("no DICOM magic at byte 128")
            stream.read(1)
        return ImageFacts(None)
    except (OSError, ValueError, EOFError, SyntaxError, zlib.error, zipfile.BadZipFile, struct.error) as error:
        return ImageFacts(f"{type(error).__name__}: {error}".replace(str(path), path.name))


def _picture(path: Path) -> ImageFacts:
    try:
        from PIL import Image
    except ImportError:
        return ImageFacts(None)
    try:
        if suffix_of(path.name) == ".png":
            # load() skips the checksums of PNG chunks, verify() skips the pixels: both are needed.
            with Image.open(path) as image:
                image.verify()
        with Image.open(path) as image:
            image.load()
            extrema: Any = image.getextrema() if image.mode not in ("P", "PA") else None
            size = f"{image.width}x{image.height}"
    except Image.DecompressionBombError as error:
        return ImageFacts(f"the picture is implausibly large: {error}")
    pairs = [pair for pair in ([extrema] if extrema and not isinstance(extrema[0], tuple) else extrema or []) if pair]
    low, high = (min(pair[0] for pair in pairs), max(pair[1] for pair in pairs)) if pairs else (None, None)
    return ImageFacts(None, size, low, high)


def _nifti_gz(stream: BinaryIO) -> str:
    with gzip.GzipFile(fileobj=stream) as unpacked:
        header = unpacked.read(540)
        length = len(header)
        # The CRC is only compared at the end, so everything is read.
        while chunk := unpacked.read(_CHUNK):
            length += len(chunk)
    return _nifti(header, length)


def _nifti(header: bytes, length: int) -> str:
    """Shape as text; ValueError when the header is none, or promises more voxels than the file holds."""
    for order in "<>":
        if len(header) >= 348 and struct.unpack_from(f"{order}i", header)[0] == 348:
            ndim, *dims = struct.unpack_from(f"{order}8h", header, 40)
            bits, offset = (
                struct.unpack_from(f"{order}h", header, 72)[0],
                struct.unpack_from(f"{order}f", header, 108)[0],
            )
            magic = header[344:348]
            break
        if len(header) >= 540 and struct.unpack_from(f"{order}i", header)[0] == 540:
            ndim, *dims = struct.unpack_from(f"{order}8q", header, 16)
            bits, offset = (
                struct.unpack_from(f"{order}h", header, 14)[0],
                struct.unpack_from(f"{order}q", header, 168)[0],
            )
            magic = header[4:8]
            break
    else:
        raise ValueError("no NIfTI header")
    if magic[:2] not in (b"n+", b"ni") or not 1 <= ndim <= 7 or min(dims[:ndim]) < 1:
        raise ValueError(f"damaged NIfTI header (magic {magic!r}, dimensions {dims[: max(0, min(ndim, 7))]})")
    voxels = 1
    for dim in dims[:ndim]:
        voxels *= dim
    if magic[:2] == b"n+" and length < int(offset) + voxels * bits // 8:
        raise ValueError(
            f"truncated: the header promises {voxels * bits // 8} bytes of voxels, {length} bytes are there"
        )
    return "x".join(str(dim) for dim in dims[:ndim])


def _npy(stream: BinaryIO, length: int) -> str:
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    shape, _, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(stream)
    if dtype.hasobject:
        raise ValueError("holds pickled objects, which are never loaded")
    wanted = int(dtype.itemsize)
    for dim in shape:
        wanted *= int(dim)
    if length - stream.seek(0, os.SEEK_CUR) < wanted:
        raise ValueError(f"truncated: the header promises {wanted} bytes, {length - stream.tell()} are there")
    return "x".join(str(dim) for dim in shape)
