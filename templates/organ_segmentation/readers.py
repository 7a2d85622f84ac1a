"""Files of one input -> voxels with their place in space, and a mask back onto the same grid.

Nothing here executes what a file says. The arrays keep the axes of the file; `Scan.grid` says how they lie: (D, H, W)
runs inferior to superior, posterior to anterior, left to right, by the nearest axis of an oblique image.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np


class BadImage(ValueError):
    """The input cannot be used as it is; the text says why and is safe to show."""


PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
TOLERANCE = 0.1
"""Parts of a voxel by which two grids may differ and still be one: headers round."""


@dataclass(frozen=True)
class Grid:
    """How the axes of a file lie. `affine` (4, 4) takes voxel indices to mm in RAS+; None where the file has none."""

    shape: tuple[int, int, int]
    """Of the file's axes; a picture is (1, H, W)."""
    affine: np.ndarray | None = None
    order: tuple[int, int, int] = (0, 1, 2)
    """File axis of each of D, H, W."""
    flips: tuple[bool, bool, bool] = (False, False, False)
    """Whether D, H, W run against the file axis."""

    @classmethod
    def of(cls, shape: Sequence[int], affine: np.ndarray | None) -> "Grid":
        size = (int(shape[0]), int(shape[1]), int(shape[2]))
        if affine is None:
            return cls(size)
        from nibabel.orientations import io_orientation

        affine = np.asarray(affine, dtype=np.float64)
        axes = io_orientation(affine) if np.isfinite(affine).all() else np.full((3, 2), np.nan)
        if np.isnan(axes).any():
            raise BadImage("has an affine that gives its axes no direction")
        places = [int(np.flatnonzero(axes[:, 0] == world)[0]) for world in (2, 1, 0)]
        return cls(size, affine, tuple(places), tuple(bool(axes[axis, 1] < 0) for axis in places))  # type: ignore[arg-type]

    @property
    def spacing(self) -> tuple[float, float, float]:
        """mm along D, H, W; 1 where the file does not say."""
        if self.affine is None:
            return (1.0, 1.0, 1.0)
        sizes = np.sqrt((self.affine[:3, :3] ** 2).sum(0))
        return tuple(float(sizes[axis]) for axis in self.order)  # type: ignore[return-value]

    @property
    def size(self) -> tuple[int, int, int]:
        """Voxels along D, H, W."""
        return tuple(self.shape[axis] for axis in self.order)  # type: ignore[return-value]

    def turn(self, array: np.ndarray) -> np.ndarray:
        """The last three axes from the file's to D, H, W; a view."""
        lead = array.ndim - 3
        turned = array.transpose(*range(lead), *(lead + axis for axis in self.order))
        return turned[(..., *(slice(None, None, -1 if flip else 1) for flip in self.flips))]

    def turn_back(self, array: np.ndarray) -> np.ndarray:
        """(D, H, W) to the file's axes; a view."""
        straight = array[tuple(slice(None, None, -1 if flip else 1) for flip in self.flips)]
        return straight.transpose(*np.argsort(self.order))

    def corners(self) -> np.ndarray | None:
        """(8, 3) centres of the corner voxels in mm, in order of (D, H, W)."""
        if self.affine is None:
            return None
        found = []
        for corner in np.ndindex(2, 2, 2):
            index = np.zeros(3)
            for end, axis, flip in zip(corner, self.order, self.flips, strict=True):
                index[axis] = (end != flip) * (self.shape[axis] - 1)
            found.append(self.affine[:3, :3] @ index + self.affine[:3, 3])
        return np.array(found)

    def difference(self, other: "Grid") -> str | None:
        """Why `other` is not the same grid, however each file orders its axes; None if it is."""
        if self.size != other.size:
            return f"has {shown(other.shape)} voxels where the image has {shown(self.shape)}"
        here, there = self.corners(), other.corners()
        if here is None or there is None:
            return None
        apart = float(np.sqrt(((here - there) ** 2).sum(1)).max())
        if apart > TOLERANCE * min(self.spacing):
            return f"lies elsewhere in space than the image (its affine puts a corner {apart:.3g} mm away)"
        return None


@dataclass(frozen=True)
class Scan:
    """Channels of one input on one grid."""

    data: np.ndarray
    """(C, i, j, k) finite float32, in the file's axes."""
    grid: Grid
    kind: str
    """nifti, dicom, numpy or picture."""
    shape: tuple[int, ...]
    """As in the file: what a mask of it has."""
    header: Any = None
    """Of a NIfTI."""


def shown(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


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


def guarded(path: Path, read: Any) -> Any:
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


def read_series(paths: Sequence[Path]) -> Scan:
    """DICOM slices of one series, sorted by position along the slice normal, rescaled; axes (column, row, slice)."""
    import pydicom

    slices = []
    for path in paths:
        try:
            found = pydicom.dcmread(path)
            planes = found.pixel_array.astype(np.float32)
        except Exception as error:
            raise BadImage(f"{path.name} cannot be read as DICOM ({str(error).splitlines()[0]})") from error
        if planes.ndim != 2:
            raise BadImage(f"{path.name} holds {shown(planes.shape)} values; expected one grey slice a file")
        rescaled = planes * float(getattr(found, "RescaleSlope", 1) or 1) + float(
            getattr(found, "RescaleIntercept", 0) or 0
        )
        slices.append((found, rescaled))
    if len({str(getattr(found, "SeriesInstanceUID", "")) for found, _ in slices}) > 1:
        raise BadImage("the files belong to several series; list the files of one")
    if len({(plane.shape, tuple(getattr(found, "ImageOrientationPatient", ()))) for found, plane in slices}) > 1:
        raise BadImage("the slices of the series differ in size or orientation")
    first = slices[0][0]
    if not all("ImagePositionPatient" in found for found, _ in slices) or "PixelSpacing" not in first:
        raise BadImage("the DICOM files say nothing of their position; give a NIfTI instead")
    across, down = np.array(first.ImageOrientationPatient, dtype=float).reshape(2, 3)
    normal = np.cross(across, down)
    slices.sort(key=lambda item: float(normal @ np.array(item[0].ImagePositionPatient, dtype=float)))
    places = np.array([found.ImagePositionPatient for found, _ in slices], dtype=float)
    thick = float(getattr(first, "SpacingBetweenSlices", None) or getattr(first, "SliceThickness", None) or 1.0)
    step = (places[-1] - places[0]) / (len(slices) - 1) if len(slices) > 1 else normal * thick
    if not np.abs(step).sum():
        raise BadImage("several slices of the series lie in the same place")
    row_mm, column_mm = (float(value) for value in first.PixelSpacing)
    affine = np.eye(4)
    affine[:3, 0], affine[:3, 1], affine[:3, 2] = across * column_mm, down * row_mm, step
    affine[:3, 3] = places[0]
    # DICOM counts to the patient's left and back, NIfTI to right and front.
    affine[:2] *= -1
    data = np.stack([plane for _, plane in slices]).transpose(2, 1, 0)
    return Scan(data[None], Grid.of(data.shape, affine), "dicom", data.shape)


def load_mask(path: Path) -> tuple[np.ndarray, Grid]:
    """Whole numbers (i, j, k) in the file's axes. Raises BadImage naming the file."""
    if not path.is_file():
        raise BadImage(f"the mask {path.name} does not exist")
    return guarded(path, lambda: read_mask(path))


def read_mask(path: Path) -> tuple[np.ndarray, Grid]:
    kind = kind_of(path)
    if kind == "nifti":
        import nibabel

        image = nibabel.load(path)
        shape = volume_shape(image.shape, planar=False)
        found, grid = np.asanyarray(image.dataobj).reshape(shape), Grid.of(shape, image.affine)
    elif kind == "numpy":
        found = np.load(path, allow_pickle=False)
        shape = volume_shape(found.shape, planar=True)
        found, grid = found.reshape(shape), Grid.of(shape, None)
    elif kind == "picture":
        from PIL import Image

        with Image.open(path) as picture:
            if picture.mode not in ("1", "L", "P", "I", "I;16"):
                raise BadImage(f"is a picture of mode {picture.mode}; a mask has one whole number a pixel")
            found = np.asarray(picture)[None]
        grid = Grid.of(found.shape, None)
    else:
        raise BadImage("is of no known mask type (NIfTI, npy, PNG)")
    if found.dtype.kind == "f":
        if not np.isfinite(found).all():
            raise BadImage("holds NaN or infinity where a mask has whole numbers")
        whole = np.rint(found)
        if np.abs(whole - found).max() > 1e-3:
            raise BadImage("holds values that are not whole numbers")
        found = whole.astype(np.int32)
    if found.dtype.kind not in "biu":
        raise BadImage(f"holds values of type {found.dtype}, not whole numbers")
    return (found.astype(np.uint8) if found.dtype.kind == "b" else found), grid


def write_mask(scan: Scan, mask: np.ndarray, folder: Path, stem: str) -> str:
    """Write whole numbers (i, j, k) on the grid of `scan`; returns the file's name. A picture becomes a PNG, anything
    else a NIfTI, with the header of a NIfTI input (sform and qform as they were)."""
    low, high = int(mask.min()), int(mask.max())
    kinds = (np.uint8, np.uint16, np.int16, np.int32)
    fitting = next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    mask = np.ascontiguousarray(mask.reshape(scan.shape)).astype(fitting)
    folder.mkdir(parents=True, exist_ok=True)
    if scan.kind == "picture":
        from PIL import Image

        Image.fromarray(mask).save(folder / f"{stem}.png")
        return f"{stem}.png"
    import nibabel

    header = scan.header.copy() if scan.header is not None else None
    two = isinstance(header, nibabel.Nifti2Header)
    affine = scan.grid.affine if scan.grid.affine is not None else np.eye(4)
    image = (nibabel.Nifti2Image if two else nibabel.Nifti1Image)(mask, affine, header)
    image.set_data_dtype(fitting)
    image.header["cal_max"] = image.header["cal_min"] = 0
    image.header.set_slope_inter(1, 0)
    nibabel.save(image, folder / f"{stem}.nii.gz")
    return f"{stem}.nii.gz"
