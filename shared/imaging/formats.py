"""The table of formats: which files are images, what reads them, and what to do with those that are not read yet."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .errors import BadImage

Kind = Literal["picture", "volume", "dicom", "array", "annotation", "video"]
Reader = Literal["pictures", "tiff", "nifti", "itk", "dicom", "arrays", ""]


@dataclass(frozen=True)
class Format:
    """One suffix. `reader` is the module that reads it, empty where none does; `convert` says
    what to convert it to, where it is not supported yet. `companion` files hold the voxels of another file, which is
    the image."""

    suffix: str
    name: str
    kind: Kind
    reader: Reader = ""
    convert: str = ""
    companion: bool = False


def _rows(kind: Kind, reader: Reader, names: dict[str, str], convert: str = "") -> list[Format]:
    return [
        Format(suffix, name, kind, reader, convert) for name, suffixes in names.items() for suffix in suffixes.split()
    ]


_PICTURES = {
    "PNG": ".png", "JPEG": ".jpg .jpeg .jpe .jfif", "BMP": ".bmp", "WebP": ".webp", "GIF": ".gif",
    "Netpbm": ".pgm .ppm .pnm", "JPEG 2000": ".jp2",
}  # fmt: skip
_ARRAYS = {
    "NumPy": ".npy .npz", "PyTorch tensor": ".pt .pth", "pickled array": ".pkl .pck .pickle", "MATLAB": ".mat",
    "HDF5": ".h5 .hdf5",
}  # fmt: skip
_TEXTS = {
    "JSON": ".json .jsonl .geojson", "table": ".csv .tsv .csv.gz .tsv.gz .xlsx .xls .xlsm", "XML": ".xml",
    "YAML": ".yaml .yml",
    "text": ".txt .md", "HL7 message": ".hl7",
}  # fmt: skip

FORMATS = (
    *_rows("picture", "pictures", _PICTURES),
    *_rows("picture", "tiff", {"TIFF": ".tif .tiff"}),
    *_rows("volume", "nifti", {"NIfTI": ".nii .nii.gz", "NIfTI or Analyze pair": ".hdr .hdr.gz", "MGH": ".mgh .mgz"}),
    Format(".img", "NIfTI or Analyze pair", "volume", "nifti", companion=True),
    Format(".img.gz", "NIfTI or Analyze pair", "volume", "nifti", companion=True),
    *_rows("volume", "itk", {"NRRD": ".nrrd .nhdr", "MetaImage": ".mha .mhd"}),
    *_rows("dicom", "dicom", {"DICOM": ".dcm .dicom .ima"}),
    *_rows("array", "arrays", _ARRAYS),
    *_rows("annotation", "", _TEXTS),
    *_rows("video", "", {"video": ".avi .mp4 .mov .mkv .wmv .webm .mpg .mpeg"}, "one PNG a frame"),
    *_rows("volume", "", {"MINC": ".mnc", "Philips PAR/REC": ".par .rec", "VTK": ".vtk .vti"}, "NIfTI (.nii.gz)"),
    *_rows("picture", "", {"whole slide": ".svs .ndpi .mrxs .scn .vsi"}, "TIFF or PNG tiles"),
    *_rows("picture", "", {"microscope": ".czi .lif .nd2 .oib .oif"}, "TIFF"),
    *_rows("picture", "", {"HEIC": ".heic .heif .avif", "Photoshop": ".psd", "raw photo": ".dng .cr2 .nef"}, "PNG"),
)
BY_SUFFIX = {row.suffix: row for row in FORMATS}
_MAGIC = (
    (128, b"DICM", ".dcm"), (0, b"\x89PNG\r\n", ".png"), (0, b"\xff\xd8\xff", ".jpg"), (0, b"II*\0", ".tif"),
    (0, b"MM\0*", ".tif"), (0, b"II+\0", ".tif"), (0, b"NRRD000", ".nrrd"), (0, b"GIF8", ".gif"),
    (344, b"n+1\0", ".nii"), (4, b"n+2\0", ".nii"), (8, b"WEBP", ".webp"), (0, b"\x93NUMPY", ".npy"),
    (0, b"\x89HDF\r\n", ".h5"),
    (0, b"MSH|", ".hl7"), (0, b"\x0bMSH|", ".hl7"), (0, b"FHS|", ".hl7"), (0, b"BHS|", ".hl7"),
)  # fmt: skip
"""Offset, bytes there, format: of files whose name does not tell."""
_DOCUMENT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?P<json>\{\s*\"|\[\s*[\[{\"])|(?P<xml><\?xml\s))")
"""Beginnings of documents."""


def suffix_of(name: str | Path) -> str:
    """Suffix in the table, lower case, `.nii.gz` whole; empty for any other, such as the last part of a UID."""
    base = os.path.basename(name).lower()  # noqa: PTH119 - names are looked at by the million
    stem, dot, last = base.rpartition(".")
    if not dot or not stem:
        return ""
    if last == "gz":
        double = "." + stem.rpartition(".")[2] + ".gz"
        return double if double in BY_SUFFIX and stem.rpartition(".")[0] else ""
    return f".{last}" if f".{last}" in BY_SUFFIX else ""


def stem_of(name: str | Path) -> str:
    """Name of the file without the suffix that `suffix_of` knows."""
    base = os.path.basename(name)  # noqa: PTH119
    return base[: len(base) - len(suffix_of(base))]


def format_of(path: str | Path) -> Format | None:
    """By suffix; a Path of an existing file without a known one is looked into. None for anything else."""
    if suffix := suffix_of(path):
        return BY_SUFFIX[suffix]
    suffix = sniffed(path) if isinstance(path, Path) else ""
    return BY_SUFFIX.get(suffix)


def kind_of(path: str | Path) -> Kind | None:
    """Kind of file: by name, of a Path without known suffix by content."""
    found = format_of(path)
    return found.kind if found else None


def is_image(name: str | Path) -> bool:
    """Whether it is an image that is read: by name, of a Path without known suffix by content. The `.img` beside an
    `.hdr` does not count: the header is the image."""
    found = format_of(name)
    return bool(found and found.reader and not found.companion)


def refusal(name: str | Path) -> str | None:
    """Why a format that is known is not read, and what to convert it to; None for all others."""
    found = format_of(name)
    if found is None or not found.convert:
        return None
    return f"not supported yet: {found.name} ({found.suffix}); convert to {found.convert}"


def known_format(path: Path) -> Format:
    """Raises BadImage for what does not exist or is not read."""
    found = format_of(path)
    if found is None or not found.reader:
        why = refusal(path)
        raise BadImage(
            f"{path.name} is {why}"
            if why
            else f"{path.name} {'is of no known image format' if path.exists() else 'does not exist'}"
        )
    return found


def sniffed(path: Path) -> str:
    """Suffix that the first bytes ask for; empty when they say nothing, or the file cannot be opened."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            head = file.read(352)
    except OSError:
        return ""
    for offset, magic, suffix in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return suffix
    if _bare_dicom(head):
        return ".dcm"
    document = _DOCUMENT.match(head)
    return f".{document.lastgroup}" if document else _separated(head)


def _separated(head: bytes) -> str:
    """`.csv` or `.tsv` where a text begins with rows of as many columns, three at least."""
    first, *others = head.replace(b"\r\n", b"\n").split(b"\n")[:-1] or [b""]
    for mark, suffix in ((b"\t", ".tsv"), (b",", ".csv"), (b";", ".csv")):
        columns = first.count(mark)
        plain = b"\0" not in head and mark + b" " not in first  # as sentences have it
        if columns > 1 and others and plain and all(row.count(mark) == columns for row in others):
            return suffix
    return ""


def _bare_dicom(head: bytes) -> bool:
    """DICOM without its preamble: old scanners begin with the first element of group 8."""
    if len(head) < 32 or head[:2] != b"\x08\x00" or head[3:4] != b"\x00":
        return False
    if head[4:6] in (b"UL", b"CS", b"UI", b"DA", b"LO", b"SH"):
        return True
    length = int.from_bytes(head[4:8], "little")
    at = 8 + length
    # Implicit VR: after a short first element there is another of the same group.
    return length <= 256 and head[at : at + 2] == b"\x08\x00"
