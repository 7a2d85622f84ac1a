"""Reading images of any format that hospitals send, header first, pixels only as far as needed.

Axis order: NIfTI as stored (i, j, k); DICOM, PNG and JPG (row, column); npy as stored.
"""

import pickle
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FORMATS = {
    **dict.fromkeys((".nii", ".nii.gz", ".hdr", ".mgz"), "nifti"),
    **dict.fromkeys((".dcm", ".dicom", ".ima"), "dicom"),
    **dict.fromkeys((".png", ".bmp", ".gif"), "raster"),
    **dict.fromkeys((".jpg", ".jpeg", ".tif", ".tiff"), "raster"),
    **dict.fromkeys((".pt", ".pth"), "torch"),
    **dict.fromkeys((".pck", ".pkl", ".pickle"), "pickle"),
    ".npy": "npy",
    ".npz": "npz",
}
_NAMES = {"jpg": "jpeg", "tif": "tiff"}
MANY_VOXELS = 40_000_000
"""Of larger volumes three slices are read."""
_TAGS = """
    Modality BodyPartExamined PatientID StudyInstanceUID SeriesInstanceUID InstanceNumber ImageType Rows Columns
    NumberOfFrames PixelSpacing SliceThickness SpacingBetweenSlices ImagePositionPatient ImageOrientationPatient
    BitsStored PixelRepresentation PhotometricInterpretation RescaleSlope RescaleIntercept WindowCenter WindowWidth
    BurnedInAnnotation
"""
"""What geometry, intensity and grouping need. Names, dates and free text of a patient are never read out."""


@dataclass
class Image:
    """Header facts, and a function that reads the pixels (`whole`: all of a large volume too)."""

    format: str
    facts: dict[str, Any]
    pixels: Callable[[bool], np.ndarray]
    spacing: tuple[float, ...] = ()
    affine: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)


def open_image(path: Path, kind: str) -> Image:
    """Raises whatever the reader raises when the file is damaged or not what its name says."""
    if path.stat().st_size == 0:
        raise ValueError("the file is empty (0 bytes)")
    warnings.simplefilter("ignore")
    return {"nifti": _nifti, "dicom": _dicom, "npy": _npy, "npz": _npz, "torch": _torch, "pickle": _pickled}.get(
        kind, _raster
    )(path)


def describe(path: Path, kind: str, statistics: bool = True) -> dict[str, Any]:
    """Facts of one image as plain values: format, shape, dtype, bits, spacing, orientation, min, max, mean and more."""
    image = open_image(path, kind)
    facts = {"format": image.format, **image.facts}
    if image.spacing:
        facts["spacing"] = [round(float(value), 4) for value in image.spacing]
    if statistics:
        try:
            facts |= intensities(image.pixels(False))
        except Exception as error:
            if image.format != "dicom":
                raise
            # A header without a decoder for its pixels is still worth knowing.
            image.notes.append(f"pixels not read: {type(error).__name__}: {str(error)[:200]}")
    if image.notes:
        facts["notes"] = image.notes
    return facts


def intensities(pixels: np.ndarray) -> dict[str, Any]:
    if pixels.size == 0:
        return {"notes": ["no pixels"]}
    if not np.issubdtype(pixels.dtype, np.number) and pixels.dtype != bool:
        return {"notes": [f"values of type {pixels.dtype}, not numbers"]}
    values = pixels.astype(np.float64, copy=False).ravel()
    finite = values[np.isfinite(values)]
    facts: dict[str, Any] = {}
    if finite.size < values.size:
        facts["not_finite"] = int(values.size - finite.size)
    if finite.size == 0:
        return facts
    low, middle, high = np.percentile(
        finite if finite.size < 2_000_000 else finite[:: finite.size // 1_000_000], (1, 50, 99)
    )
    facts |= {"min": _plain(finite.min()), "max": _plain(finite.max()), "mean": round(float(finite.mean()), 4)}
    facts |= {"std": round(float(finite.std()), 4), "p1": _plain(low), "median": _plain(middle), "p99": _plain(high)}
    if facts["min"] == facts["max"]:
        facts["constant"] = True
    elif np.all(finite == np.round(finite)) and facts["max"] - facts["min"] <= 300:
        found, counts = np.unique(finite, return_counts=True)
        if len(found) <= 64:
            facts["values"] = {str(int(value)): int(count) for value, count in zip(found, counts, strict=True)}
    return facts


def _plain(value: Any) -> float | int:
    number = float(value)
    return int(number) if number.is_integer() else round(number, 4)


def _nifti(path: Path) -> Image:
    import nibabel as nib

    scan: Any = nib.load(path)
    shape = tuple(int(n) for n in scan.shape)
    dtype = scan.get_data_dtype()
    affine = np.asarray(scan.affine, float)
    facts: dict[str, Any] = {"shape": list(shape), "dtype": str(dtype), "bits": int(dtype.itemsize * 8)}
    facts["orientation"] = "".join(code or "?" for code in nib.aff2axcodes(affine))
    spacing = tuple(float(z) for z in scan.header.get_zooms()[: len(shape)])
    notes = []
    cosines = affine[:3, :3] / np.where((norms := np.linalg.norm(affine[:3, :3], axis=0)) == 0, 1, norms)
    angle = float(np.degrees(np.arccos(np.clip(np.abs(cosines).max(axis=0).min(), 0, 1))))
    facts["oblique_degrees"] = round(angle, 2)
    if angle > 0.5:
        notes.append(f"oblique: axes are {angle:.1f} degrees off the scanner's")
    if "sform_code" in scan.header:
        facts["sform_code"], facts["qform_code"] = int(scan.header["sform_code"]), int(scan.header["qform_code"])
        if not facts["sform_code"] and not facts["qform_code"]:
            notes.append("neither sform nor qform is set: position and orientation are unknown")
    slope, intercept = getattr(scan.dataobj, "slope", 1.0), getattr(scan.dataobj, "inter", 0.0)
    if (slope, intercept) != (1.0, 0.0):
        facts["scaling"] = [float(slope), float(intercept)]

    def pixels(whole: bool) -> np.ndarray:
        if whole or np.prod(shape) <= MANY_VOXELS or len(shape) < 3:
            return np.asanyarray(scan.dataobj)
        notes.append("intensities from 3 slices")
        return np.stack([np.asanyarray(scan.dataobj[:, :, shape[2] * n // 4]) for n in (1, 2, 3)], axis=-1)

    return Image("nifti", facts, pixels, spacing, affine, notes)


def _dicom(path: Path) -> Image:
    import pydicom

    data = pydicom.dcmread(path)
    tags = {name: _tag(data.get(name)) for name in _TAGS.split() if data.get(name) not in (None, "")}
    shape = [int(data[name].value) for name in ("NumberOfFrames", "Rows", "Columns") if name in data]
    facts: dict[str, Any] = {"shape": shape, "bits": int(data.get("BitsStored", 0)), "tags": tags}
    syntax = getattr(data.file_meta, "TransferSyntaxUID", None)
    facts["transfer_syntax"] = getattr(syntax, "name", str(syntax))
    spacing = tuple(float(value) for value in data.get("PixelSpacing", ()))
    thickness = data.get("SpacingBetweenSlices") or data.get("SliceThickness")
    if spacing and thickness:
        spacing = (*spacing, float(thickness))
    slope, intercept = float(data.get("RescaleSlope", 1)), float(data.get("RescaleIntercept", 0))

    def pixels(_: bool) -> np.ndarray:
        stored = data.pixel_array
        facts.setdefault("dtype", str(stored.dtype))
        return np.asarray(stored) if (slope, intercept) == (1.0, 0.0) else np.asarray(stored * slope + intercept)

    notes = [f"intensities after rescale {slope:g}, {intercept:g}"] if (slope, intercept) != (1.0, 0.0) else []
    return Image("dicom", facts, pixels, spacing, None, notes)


def _tag(value: Any) -> Any:
    if isinstance(value, int | float | str) and not hasattr(value, "original_string"):
        return str(value) if isinstance(value, str) else value
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return [_tag(item) for item in value]
    try:
        return _plain(value)
    except (TypeError, ValueError):
        return str(value)


def _raster(path: Path) -> Image:
    from PIL import Image as Pil

    with Pil.open(path) as opened:
        opened.load()
        frames = getattr(opened, "n_frames", 1)
        mode = opened.mode
        array = np.asarray(opened.convert("RGB") if mode == "P" else opened)
        name = (opened.format or "image").lower()
    facts: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype), "mode": mode}
    facts["bits"] = int(array.dtype.itemsize * 8) if array.dtype != bool else 1
    notes = [f"{frames} frames, the first is described"] if frames > 1 else []
    said = path.suffix.lower().lstrip(".")
    if FORMATS.get(path.suffix.lower()) == "raster" and _NAMES.get(said, said) != name:
        notes.append(f"the content is {name}, whatever the extension {path.suffix} says")
    if array.ndim == 3 and array.shape[2] >= 3 and np.array_equal(array[..., 0], array[..., 1]):
        notes.append("colour image with equal channels (grey)") if np.array_equal(
            array[..., 1], array[..., 2]
        ) else None
    return Image(name, facts, lambda _: array, (), None, notes)


def _npy(path: Path) -> Image:
    return _array("npy", np.load(path, mmap_mode="r", allow_pickle=False))


def _npz(path: Path) -> Image:
    with np.load(path, allow_pickle=False) as archive:
        members = {name: archive[name] for name in archive.files[:20]}
    image = _array("npz", max(members.values(), key=lambda array: array.size))
    image.facts["members"] = {name: f"{array.dtype} {list(array.shape)}" for name, array in members.items()}
    return image


def _array(name: str, array: np.ndarray) -> Image:
    facts = {"shape": list(array.shape), "dtype": str(array.dtype), "bits": int(array.dtype.itemsize * 8)}
    notes: list[str] = []

    def pixels(whole: bool) -> np.ndarray:
        if whole or array.size <= MANY_VOXELS or array.ndim < 3:
            return np.asarray(array)
        notes.append("intensities from 3 slices of the first axis")
        return np.stack([np.asarray(array[len(array) * n // 4]) for n in (1, 2, 3)])

    return Image(name, facts, pixels, (), None, notes)


class _ArraysOnly(pickle.Unpickler):
    """Builds numpy arrays and plain containers; any other class in the file is refused, so nothing of it runs."""

    _allowed = (("_reconstruct", "multiarray"), ("ndarray", "numpy"), ("dtype", "numpy"), ("scalar", "multiarray"))

    def find_class(self, module: str, name: str) -> Any:
        last = module.rpartition(".")[2]
        if module.split(".")[0] == "numpy" and (name, last) in self._allowed:
            from numpy._core import multiarray

            return getattr(multiarray if last == "multiarray" else np, name)
        if (module, name) == ("_codecs", "encode"):
            import codecs

            return codecs.encode
        raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}; only numpy arrays are read")


def _pickled(path: Path) -> Image:
    with path.open("rb") as file:
        found = _ArraysOnly(file).load()
    return _held("pickle", found)


class _TensorsOnly(pickle.Unpickler):
    """A torch archive without torch: tensors become numpy arrays, anything else is refused."""

    def __init__(self, archive: zipfile.ZipFile, prefix: str) -> None:
        super().__init__(archive.open(f"{prefix}data.pkl"))
        self._archive, self._prefix = archive, prefix

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if module == "torch" and name.endswith("Storage"):
            return name
        raise pickle.UnpicklingError(f"the file asks for {module}.{name}; only tensors are read")

    def persistent_load(self, saved: Any) -> np.ndarray:
        kinds = {"Float": "f4", "Double": "f8", "Half": "f2", "Byte": "u1", "Char": "i1", "Short": "i2", "Int": "i4",
                 "Long": "i8", "Bool": "?"}  # fmt: skip
        kind = str(saved[1]).removesuffix("Storage")
        if kind not in kinds:
            raise pickle.UnpicklingError(f"tensors of type {kind} are not read")
        return np.frombuffer(self._archive.read(f"{self._prefix}data/{saved[2]}"), f"<{kinds[kind]}")


def _tensor(storage: np.ndarray, offset: int, size: Any, stride: Any, *_: Any) -> np.ndarray:
    flat = storage[offset:]
    reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if size else 1
    if min([0, *stride]) < 0 or (0 not in size and reach > flat.size):
        raise ValueError("the tensor's strides reach beyond its data")
    return np.lib.stride_tricks.as_strided(
        flat, tuple(size), tuple(step * flat.itemsize for step in stride), writeable=False
    )


def _torch(path: Path) -> Image:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("data.pkl")]
        if not names:
            raise ValueError("this zip file holds no torch data (no data.pkl)")
        found = _TensorsOnly(archive, names[0].removesuffix("data.pkl")).load()
    return _held("torch", found)


def _held(name: str, found: Any) -> Image:
    if isinstance(found, np.ndarray):
        return _array(name, found)
    members = (
        dict(found) if isinstance(found, dict) else dict(enumerate(found)) if isinstance(found, list | tuple) else {}
    )
    arrays = {str(key): value for key, value in members.items() if isinstance(value, np.ndarray)}
    if not arrays:
        raise ValueError(f"holds {type(found).__name__}, no array")
    image = _array(name, max(arrays.values(), key=lambda array: array.size))
    image.facts["members"] = {key: f"{value.dtype} {list(value.shape)}" for key, value in list(arrays.items())[:20]}
    return image
