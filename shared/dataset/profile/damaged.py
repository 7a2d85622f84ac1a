"""Files that cannot be opened, by their size and both ends alone: nothing is decoded."""

import gzip
import os
import struct
import time
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from shared.dataset.files.listing import Listing
from shared.dataset.survey.naming import evenly

MOST_ENDS = 3000
_SECONDS = 5.0
_SHOWN = 6
_BROKEN = (EOFError, OSError, ValueError, OverflowError, zlib.error)
"""What reading a gzip or a header of nonsense raises."""


def in_words(listing: Listing, files: Collection[str], known: Mapping[str, str] | None = None) -> str:
    """One line for a core that names those of `files` that cannot be read, with size and cause; '' where none was
    found. `known` are faults that were seen before: file -> cause."""
    found = {file: cause for file, cause in (known or {}).items() if file in files}
    found |= {file: "0 bytes" for file in files if _size(listing, file) == 0}
    end, looked = time.monotonic() + _SECONDS, 0
    for file in evenly(sorted(files), MOST_ENDS):
        if time.monotonic() > end:
            break
        looked += 1
        if file not in found and (cause := _fault(listing, file)):
            found[file] = f"{cause}, {_size(listing, file):,} bytes"
    if not found:
        return ""
    shown = ", ".join(f"{file} ({cause})" for file, cause in sorted(found.items())[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    part = f" (both ends of {looked:,} were looked at)" if looked < len(files) else ""
    return (
        f"UNREADABLE: {len(found)} of {len(files)} image files{part} cannot be read: {shown}{more}. Intake leaves such "
        "files out and says so: the rules need no word of it"
    )


def _size(listing: Listing, file: str) -> int:
    at = listing.place(file)
    return -1 if at is None else listing.sizes[at]


def _fault(listing: Listing, file: str) -> str:
    try:
        return "cut off" if is_cut(listing.root / file, file.lower(), _size(listing, file)) else ""
    except OSError:
        return "may not be opened"


def is_cut(path: Path, name: str, size: int) -> bool:
    """Whether a PNG, JPEG or NIfTI ends too early."""
    if name.endswith((".png", ".jpg", ".jpeg")):
        with path.open("rb") as stream:
            start = stream.read(8)
            stream.seek(max(0, size - 4096))
            end = stream.read(4096)
        if start.startswith(b"\x89PNG"):
            return b"IEND" not in end
        return start.startswith(b"\xff\xd8\xff") and b"\xff\xd9" not in end
    if name.endswith((".nii.gz", ".nii")):
        return _nifti_is_cut(path, name, size)
    return False


def _nifti_is_cut(path: Path, name: str, size: int) -> bool:
    """Whether fewer bytes are there than the header asks for; of a gzip by the length in its last four bytes."""
    try:
        with gzip.open(path) if name.endswith(".gz") else path.open("rb") as stream:
            head = stream.read(348)
    except _BROKEN:
        return True
    if len(head) < 348:
        return True
    order = "<" if struct.unpack_from("<i", head, 0)[0] in (348, 540) else ">"
    if struct.unpack_from(order + "i", head, 0)[0] != 348:
        return False
    dims = struct.unpack_from(order + "8h", head, 40)
    bits = struct.unpack_from(order + "h", head, 72)[0]
    if not 1 <= dims[0] <= 7:
        return False
    offset = struct.unpack_from(order + "f", head, 108)[0]
    if not 0 <= offset < 1 << 31:
        return False
    asked = int(offset)
    asked += int(np.prod([max(1, float(edge)) for edge in dims[1 : dims[0] + 1]])) * bits // 8
    if name.endswith(".gz"):
        with path.open("rb") as stream:
            stream.seek(-4, os.SEEK_END)
            whole = bool(struct.unpack("<I", stream.read(4))[0] == asked % (1 << 32))
        return not whole and not _members(path)
    return bool(size < asked)


def _members(path: Path) -> bool:
    """Whether a gzip of several parts is whole, whose last length is not that of all."""
    try:
        with gzip.open(path) as stream:
            while stream.read(1 << 20):
                pass
    except _BROKEN:
        return False
    return True
