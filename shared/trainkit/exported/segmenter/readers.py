"""Files of one input -> a scan. Nothing here executes what a file says."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from .dicom import read_series
from .scan import BadImage, Grid, Scan, shown

Found = TypeVar("Found")
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")


def kind_of(path: Path) -> str:
    """nifti, dicom, numpy, picture, or an empty string for anything else."""
    name = path.name.lower()
    if name.startswith("."):
        return ""
    if name.endswith((".nii", ".nii.gz")):
        return "nifti"
    if path.suffix.lower() in PICTURES:
        return "picture"
    if path.suffix.lower() in (".npy", ".dcm", ".ima"):
        return "numpy" if path.suffix.lower() == ".npy" else "dicom"
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(132)
        if head[128:] == b"DICM":
            return "dicom"
    return ""


def stem_of(path: Path) -> str:
    """Name without the suffix; `.nii.gz` is one."""
    name = path.name or path.resolve().name
    if path.is_dir():
        return name
    return re.sub(r"\.gz$", "", name, flags=re.IGNORECASE).rsplit(".", 1)[0] if kind_of(path) else name


def input_files(path: Path) -> list[Path]:
    """Files of one INPUT: a file is itself, a folder its images in natural order; `attributes.json` is passed over."""
    if not path.exists():
        raise BadImage(f"{path.name} does not exist")
    if path.is_file():
        return [path]
    images = [item for item in path.iterdir() if item.is_file() and kind_of(item)]
    if not images:
        raise BadImage(f"the folder {path.name} holds no image that can be read")
    return sorted(images, key=lambda item: natural(item.name))


def natural(name: str) -> list[tuple[int, int, str]]:
    """`2.nii` before `10.nii`."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part.lower()) for part in re.split(r"(\d+)", name) if part]


def load_scan(files: Sequence[Path]) -> Scan:
    """Several files are channels on one grid, in the given order, except DICOM: slices of one series."""
    kinds = {kind_of(path) for path in files}
    if not files:
        raise BadImage("no files")
    if "" in kinds:
        unknown = next(path for path in files if not kind_of(path))
        raise BadImage(f"{unknown.name} {'is of no known image type' if unknown.exists() else 'does not exist'}")
    if len(kinds) > 1:
        raise BadImage(f"{len(files)} files of types {', '.join(sorted(kinds))} do not make one scan")
    if kinds == {"dicom"}:
        return finite(guarded(files[0], lambda: read_series(files)), files)
    scans = [read_image(path) for path in files]
    grid = scans[0].grid
    for scan, path in zip(scans[1:], files[1:], strict=True):
        if difference := grid.difference(scan.grid):
            raise BadImage(f"{path.name} is no channel of {files[0].name}: it {difference}")
    if len(scans) == 1:
        return finite(scans[0], files)
    data = np.stack([grid.turn_back(scan.grid.turn(scan.data[0])) for scan in scans])
    whole = replace(scans[0], data=data)
    return finite(whole, files)


def finite(scan: Scan, files: Sequence[Path]) -> Scan:
    bad = scan.data.size - int(np.isfinite(scan.data).sum())
    if bad:
        raise BadImage(f"{files[0].name}: {bad} voxels are NaN or infinite")
    return scan


def read_image(path: Path) -> Scan:
    """Raises BadImage naming the file."""
    if not path.is_file():
        raise BadImage(f"{path.name} does not exist")
    return guarded(
        path, lambda: {"nifti": read_nifti, "numpy": read_numpy, "picture": read_picture}[kind_of(path)](path)
    )


def guarded(path: Path, read: Callable[[], Found]) -> Found:
    try:
        return read()
    except BadImage as error:
        raise error if path.name in str(error) else BadImage(f"{path.name} {error}") from error
    except Exception as error:  # a damaged file fails in as many ways as there are formats
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadImage(f"{path.name} cannot be read ({reason.replace(str(path), path.name)})") from error


def volume_shape(shape: Sequence[int], planar: bool) -> tuple[int, int, int]:
    """Three axes: longer ones must be single; a plane gets one slice, in front where the file is (H, W)."""
    if any(size != 1 for size in shape[3:]):
        raise BadImage(f"has shape {shown(shape)}; give one 3D volume a file, channels as files of their own")
    if len(shape) < 2 or 0 in shape:
        raise BadImage(f"has shape {shown(shape)}; expected a volume or a picture")
    if len(shape) == 2:
        return (1, *shape) if planar else (*shape, 1)  # type: ignore[return-value]
    return tuple(shape[:3])  # type: ignore[return-value]


def read_nifti(path: Path) -> Scan:
    import nibabel

    image = nibabel.load(path)
    shape = volume_shape(image.shape, planar=False)
    if np.dtype(image.get_data_dtype()).names:
        raise BadImage("holds colour voxels, which are not supported")
    data = np.asarray(image.dataobj, dtype=np.float32).reshape(1, *shape)
    return Scan(data, Grid.of(shape, image.affine), "nifti", tuple(image.shape), image.header)


def read_numpy(path: Path) -> Scan:
    found = np.load(path, allow_pickle=False)
    if found.dtype.kind not in "biuf":
        raise BadImage(f"holds values of type {found.dtype}, not numbers")
    shape = volume_shape(found.shape, planar=True)
    return Scan(found.astype(np.float32).reshape(1, *shape), Grid.of(shape, None), "numpy", found.shape)


def read_picture(path: Path) -> Scan:
    from PIL import Image

    with Image.open(path) as picture:
        if getattr(picture, "n_frames", 1) > 1:
            raise BadImage(f"holds {picture.n_frames} pictures; give one a file")
        deep = picture.mode.startswith(("I", "F"))
        plane = np.asarray(picture if deep else picture.convert("L"), dtype=np.float32)
    return Scan(plane[None, None], Grid.of((1, *plane.shape), None), "picture", plane.shape)
