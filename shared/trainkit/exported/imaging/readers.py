"""One file of each format -> array and spacing. Nothing here executes what a file says: no pickle with free imports."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Spacing = tuple[float, float, float] | None


class BadImage(ValueError):
    """The input cannot be used as it is; the text says why and is safe to show."""


PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")


def suffix_of(path: Path) -> str:
    """Kind of image: picture, nifti, dicom, numpy, torch, array_pickle, or an empty string for anything else."""
    name = path.name.lower()
    if name.startswith("."):
        return ""
    if name.endswith((".nii", ".nii.gz")):
        return "nifti"
    suffix = path.suffix.lower()
    if suffix in PICTURES:
        return "picture"
    known = {".dcm": "dicom", ".ima": "dicom", ".npy": "numpy", ".npz": "numpy", ".pt": "torch", ".pth": "torch"}
    known |= {".pck": "array_pickle", ".pkl": "array_pickle", ".pickle": "array_pickle"}
    if suffix in known:
        return known[suffix]
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(132)
        if head[128:] == b"DICM":
            return "dicom"
    return ""


def read_file(path: Path) -> tuple[np.ndarray, Spacing]:
    """Raises BadImage naming the file; the array keeps the file's axes (NIfTI: turned to D, H, W)."""
    reader = READERS[suffix_of(path)]
    if not path.is_file():
        raise BadImage(f"{path.name} does not exist")
    try:
        return reader(path)
    except BadImage:
        raise
    except Exception as error:  # a damaged file fails in as many ways as there are formats
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadImage(f"{path.name} cannot be read ({reason.replace(str(path), path.name)})") from error


def read_picture(path: Path) -> tuple[np.ndarray, Spacing]:
    from PIL import Image, ImageSequence

    with Image.open(path) as picture:
        frames = [gray(frame) for frame in ImageSequence.Iterator(picture)]
    return (frames[0] if len(frames) == 1 else np.stack(frames)), None


def gray(frame: Any) -> np.ndarray:
    """Colour becomes luminance; 16-bit and float pictures keep their values."""
    deep = frame.mode.startswith(("I", "F"))
    return np.asarray(frame if deep else frame.convert("L"), dtype=np.float32)


def read_nifti(path: Path) -> tuple[np.ndarray, Spacing]:
    import nibabel

    image = nibabel.load(path)
    if any(size != 1 for size in image.shape[3:]):
        raise BadImage(f"{path.name} is a 4D volume of shape {tuple(image.shape)}; give one 3D volume a sample")
    if len(image.shape) < 2:
        raise BadImage(f"{path.name} has shape {tuple(image.shape)}; expected a volume")
    data = np.asanyarray(image.dataobj)
    if data.dtype.names:
        raise BadImage(f"{path.name} holds colour voxels, which are not supported")
    data = data.reshape(data.shape[:3] if data.ndim >= 3 else (*data.shape, 1))
    canonical = nibabel.as_closest_canonical(nibabel.Nifti1Image(data.astype(np.float32), image.affine))
    x, y, z = (float(size) for size in canonical.header.get_zooms()[:3])
    return np.asarray(canonical.dataobj, dtype=np.float32).transpose(2, 1, 0), (z, y, x)


def read_numpy(path: Path) -> tuple[np.ndarray, Spacing]:
    found = np.load(path, allow_pickle=False)
    if not isinstance(found, np.ndarray):
        with found:
            if len(found.files) != 1:
                raise BadImage(f"{path.name} holds {len(found.files)} arrays; expected one")
            found = found[found.files[0]]
    return numeric(found, path), None


def read_torch(path: Path) -> tuple[np.ndarray, Spacing]:
    import torch

    found = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(found, dict):
        tensors = [value for value in found.values() if isinstance(value, torch.Tensor) and value.ndim >= 2]
        if len(tensors) != 1:
            raise BadImage(f"{path.name} is a dictionary with {len(tensors)} image tensors; expected one")
        found = tensors[0]
    if not isinstance(found, torch.Tensor):
        raise BadImage(f"{path.name} holds a {type(found).__name__}, not a tensor")
    return numeric(found.detach().to(torch.float32).numpy(), path), None


class _ArraysOnly(pickle.Unpickler):
    """Rebuilds NumPy arrays and refuses every other global, so that a file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        # NumPy 2 renamed numpy.core to numpy._core; files of either age are read.
        if module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray") and name in ("ndarray", "dtype"):
            return getattr(np, name)
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name in ("_reconstruct", "scalar"):
            return getattr(np._core.multiarray, name)  # type: ignore[attr-defined]
        if module in ("numpy.core.numeric", "numpy._core.numeric") and name == "_frombuffer":
            return np._core.numeric._frombuffer  # type: ignore[attr-defined]
        if (module, name) == ("_codecs", "encode"):
            import _codecs

            return _codecs.encode
        raise BadImage(f"a pickle that asks for {module}.{name} is refused; only plain arrays are read")


def read_array_pickle(path: Path) -> tuple[np.ndarray, Spacing]:
    with path.open("rb") as file:
        # Files written by Python 2 hold bytes as latin-1 text.
        found = _ArraysOnly(file, encoding="latin1").load()
    if not isinstance(found, np.ndarray):
        raise BadImage(f"{path.name} holds a {type(found).__name__}, not an array")
    return numeric(found, path), None


def numeric(array: np.ndarray, path: Path) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise BadImage(f"{path.name} holds values of type {array.dtype}, not numbers")
    return array.astype(np.float32)


def read_dicom(path: Path) -> tuple[np.ndarray, Spacing]:
    return read_series([path])


def read_series(paths: Sequence[Path]) -> tuple[np.ndarray, Spacing]:
    """DICOM slices of one series, sorted by position along the slice normal, rescaled to their physical units."""
    import pydicom

    slices = []
    for path in paths:
        try:
            slices.append((pydicom.dcmread(path), path))
        except Exception as error:
            raise BadImage(f"{path.name} cannot be read as DICOM ({str(error).splitlines()[0]})") from error
    series = {str(getattr(found, "SeriesInstanceUID", "")) for found, _ in slices}
    if len(series) > 1:
        raise BadImage(f"the files belong to {len(series)} series; list the files of one")
    first = slices[0][0]
    if len(slices) > 1 and all("ImagePositionPatient" in found for found, _ in slices):
        across = [float(value) for value in getattr(first, "ImageOrientationPatient", (1, 0, 0, 0, 1, 0))]
        normal = np.cross(across[:3], across[3:])
        placed = sorted(
            (
                (float(np.dot(normal, [float(v) for v in found.ImagePositionPatient])), found, path)
                for found, path in slices
            ),
            key=lambda item: item[0],
        )
        gap = float(np.median(np.diff([item[0] for item in placed])))
        slices = [(found, path) for _, found, path in placed]
    else:
        gap = float(getattr(first, "SpacingBetweenSlices", None) or getattr(first, "SliceThickness", None) or 1.0)
    planes = [dicom_pixels(found, path) for found, path in slices]
    if len({plane.shape for plane in planes}) != 1:
        raise BadImage(f"the slices of the series have different sizes: {sorted({plane.shape for plane in planes})}")
    row, column = (float(value) for value in getattr(first, "PixelSpacing", (1.0, 1.0)))
    volume = planes[0] if len(planes) == 1 else np.stack(planes)
    return volume, ((abs(gap) or 1.0, row, column) if "PixelSpacing" in first else None)


def dicom_pixels(found: Any, path: Path) -> np.ndarray:
    try:
        pixels: np.ndarray = found.pixel_array.astype(np.float32)
    except Exception as error:
        raise BadImage(f"the pixels of {path.name} cannot be decoded ({str(error).splitlines()[0]})") from error
    if int(getattr(found, "SamplesPerPixel", 1)) == 3:
        pixels = pixels @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    pixels = pixels * float(getattr(found, "RescaleSlope", 1) or 1) + float(getattr(found, "RescaleIntercept", 0) or 0)
    if getattr(found, "PhotometricInterpretation", "") == "MONOCHROME1":
        pixels = pixels.max() + pixels.min() - pixels
    return pixels


READERS: dict[str, Callable[[Path], tuple[np.ndarray, Spacing]]] = {
    "picture": read_picture,
    "nifti": read_nifti,
    "dicom": read_dicom,
    "numpy": read_numpy,
    "torch": read_torch,
    "array_pickle": read_array_pickle,
}
