"""NRRD and MetaImage, by SimpleITK; also DICOM files and deep PNG that other libraries do not decode."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from .errors import LARGEST, BadImage, bounded, shown
from .header import Header
from .image import Image
from .nifti import Axis4
from .nrrd_names import SUFFIX

_DATA_FILE = {
    ".mhd": re.compile(rb"^\s*ElementDataFile\s*=\s*(.+?)\s*$", re.MULTILINE | re.IGNORECASE),
    ".nhdr": re.compile(rb"^\s*data ?file\s*:\s*(.+?)\s*$", re.MULTILINE | re.IGNORECASE),
}


def check_data_file(path: Path) -> None:
    """A header may name the file of its voxels: only one beside it is read. Raises BadImage."""
    with path.open("rb") as file:
        head = file.read(1 << 16)
    for suffix, pattern in _DATA_FILE.items():
        for name in pattern.findall(head):
            text = name.decode("utf-8", "replace")
            if text.upper() == "LOCAL":
                continue
            if "/" in text or "\\" in text or text.startswith(".") or "%" in text or text.upper().startswith("LIST"):
                raise BadImage(
                    f"takes its voxels from `{text[:60]}`; only one file beside it is read: "
                    f"write it whole as {'.mha' if suffix == '.mhd' else '.nrrd'}"
                )
            if path.suffix.lower() == suffix and not (path.parent / text).is_file():
                raise BadImage(f"takes its voxels from {text[:60]}, which is missing beside it")


def opened(path: Path) -> Any:
    """A SimpleITK reader that has read the header. Raises BadImage."""
    import SimpleITK

    if path.suffix.lower() in (".mhd", ".nhdr", ".mha", ".nrrd"):
        check_data_file(path)
    reader = SimpleITK.ImageFileReader()
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
    except RuntimeError as error:
        raise BadImage(f"cannot be read ({last_line(error)}); it is damaged or of another format") from error
    return reader


def last_line(error: Exception) -> str:
    """SimpleITK says last what is wrong, after where in its sources."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:160]


def affine_of(reader: Any) -> np.ndarray:
    """(4, 4) in RAS; ITK counts to the patient's left and back."""
    axes = reader.GetDimension()
    direction = np.array(reader.GetDirection()).reshape(axes, axes)[:3, :3]
    found = np.eye(4)
    found[:3, :3] = direction * np.array(reader.GetSpacing())[:3]
    found[:3, 3] = np.array(reader.GetOrigin())[:3]
    found[:2] *= -1
    return found


def pixel(reader: Any) -> tuple[str, int]:
    """Type and bytes of one value."""
    import SimpleITK

    text = SimpleITK.GetPixelIDValueAsString(reader.GetPixelID())
    bits = re.search(r"(\d+)-bit", text)
    size = int(bits.group(1)) // 8 if bits else 8
    name = "float" if "float" in text else "uint" if "unsigned" in text else "int"
    if "complex" in text or "label" in text:
        raise BadImage(f"holds values of type {text}, not numbers")
    return f"{name}{size * 8}", size


def _coloured(path: Path, components: int, dtype: str) -> bool:
    """Values of a voxel that are red, green and blue; of a segmentation they are layers."""
    return components in (3, 4) and dtype == "uint8" and not path.name.lower().endswith(SUFFIX)


def header(path: Path) -> Header:
    """See `headers.peek`."""
    reader = opened(path)
    axes, size, components = reader.GetDimension(), reader.GetSize(), int(reader.GetNumberOfComponents())
    dtype, _ = pixel(reader)
    if axes not in (2, 3, 4):
        raise BadImage(f"has {axes} axes; volumes of up to four are read")
    thin = axes == 2 or sum(edge > 1 for edge in size[:3]) < 3
    return Header(
        "volume",
        2 if thin else 3,
        tuple(int(edge) for edge in size[:3]),
        tuple(float(mm) for mm in reader.GetSpacing()[:3]),
        components,
        dtype,
        colour=_coloured(path, components, dtype),
        frames=int(size[3]) if axes == 4 else 1,
        affine=affine_of(reader) if axes > 2 else None,
    )


def read(path: Path, axis4: Axis4 = "refuse", most: int = LARGEST) -> Image:
    """A volume with its place, or a picture where the file has two axes. Raises BadImage."""
    import SimpleITK

    reader = opened(path)
    axes, size, components = reader.GetDimension(), list(reader.GetSize()), int(reader.GetNumberOfComponents())
    if axes not in (2, 3, 4):
        raise BadImage(f"has shape {shown(size)}; volumes of up to four axes are read")
    dtype, itemsize = pixel(reader)
    if axes == 4 and size[3] > 1 and axis4 == "refuse":
        raise BadImage(
            f"has a fourth axis of {size[3]}; say with `axis4` whether these are channels, or times of which the first "
            "is taken"
        )
    affine = affine_of(reader) if axes > 2 else None
    if axes == 4 and axis4 == "first":
        reader.SetExtractIndex([0, 0, 0, 0])
        reader.SetExtractSize([*size[:3], 0])
        size[3] = 1
    bounded((*size, components), itemsize, most)
    try:
        found = SimpleITK.GetArrayFromImage(reader.Execute())
    except RuntimeError as error:
        raise BadImage(f"cannot be read ({last_line(error)}); it is damaged") from error
    colour = _coloured(path, components, dtype)
    if axes == 2:
        return Image(found.reshape(size[1], size[0], components)[..., : 3 if colour else None], None, colour=colour)
    if axes == 4 and size[3] > 1:
        if components > 1:
            raise BadImage("has several values a voxel and a fourth axis; write one volume a file")
        return Image(found.transpose(3, 2, 1, 0), affine)
    volume = found.reshape(size[2], size[1], size[0], components).transpose(2, 1, 0, 3)
    return Image(volume[..., : 3 if colour else None], affine, colour=colour)
