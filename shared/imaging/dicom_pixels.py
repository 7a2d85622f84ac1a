"""Pixels of a DICOM object: decoded, in colour or grey, the right way round, in the units that its header gives."""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .dicom_headers import frames_of, numbers, shared_group
from .errors import BadImage
from .nifti import rescaled_exactly


@dataclass(frozen=True)
class Decoded:
    """What the values of an object can be: `low` to `high`, and whether all are whole."""

    whole: bool
    low: float
    high: float

    @classmethod
    def of(cls, dataset: Any) -> "Decoded":
        if "PixelData" not in dataset:
            return cls(False, 0, 0)
        bits, signed = int(getattr(dataset, "BitsAllocated", 16)), bool(getattr(dataset, "PixelRepresentation", 0))
        if int(getattr(dataset, "SamplesPerPixel", 1) or 1) > 1 or has_palette(dataset):
            return cls(True, 0, 255 if bits == 8 or has_palette(dataset) else 2**bits - 1)
        if getattr(dataset, "ModalityLUTSequence", None):
            return cls(True, -(2.0**15), 2.0**16 - 1)
        ends = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if signed else (0.0, 2.0**bits - 1)
        scales = {scaling(dataset, frame) for frame in range(frames_of(dataset))}
        if any(slope != int(slope) or intercept != int(intercept) for slope, intercept in scales):
            return cls(False, 0, 0)
        found = [end * slope + intercept for end in ends for slope, intercept in scales]
        return cls(True, min(found), max(found))


def has_palette(dataset: Any) -> bool:
    return str(getattr(dataset, "PhotometricInterpretation", "")) == "PALETTE COLOR"


def scaling(dataset: Any, frame: int) -> tuple[float, float]:
    """Slope and intercept of a frame; 1 and 0 where the header does not say, or says nonsense."""
    holder = shared_group(dataset, "PixelValueTransformationSequence", frame) or dataset
    slope = numbers([getattr(holder, "RescaleSlope", None)], 1)
    intercept = numbers([getattr(holder, "RescaleIntercept", None)], 1)
    return (slope[0] if slope and slope[0] else 1.0), (intercept[0] if intercept else 0.0)


def values_of(dataset: Any) -> Callable[[int], np.ndarray]:
    """Decodes an object; the answer gives (H, W, C) of a frame. Raises BadImage."""
    stored = decoded(dataset)
    rows, columns, samples = int(dataset.Rows), int(dataset.Columns), int(getattr(dataset, "SamplesPerPixel", 1) or 1)
    if has_palette(dataset):
        stored, samples = palette_colours(stored, dataset), 3
    frames = frames_of(dataset)
    if stored.size != frames * rows * columns * samples:
        raise BadImage(f"holds {stored.size} pixel values where its header says {frames * rows * columns * samples}")
    stored = stored.reshape(frames, rows, columns, samples)
    if samples > 1:
        return lambda frame: stored[frame]
    inverted = str(getattr(dataset, "PhotometricInterpretation", "")) == "MONOCHROME1"

    def values(frame: int) -> np.ndarray:
        plane = stored[frame]
        if inverted and plane.dtype.kind in "iu":
            # By the bits that count, the same for all slices of a series.
            bits = int(getattr(dataset, "BitsStored", 0) or dataset.BitsAllocated)
            high = -1 if int(getattr(dataset, "PixelRepresentation", 0)) else 2**bits - 1
            plane = (high - plane.astype(np.int64)).astype(np.int32 if bits < 31 else np.float64)
        if getattr(dataset, "ModalityLUTSequence", None):
            from pydicom.pixels import apply_modality_lut

            found: np.ndarray = apply_modality_lut(plane, dataset)
            return found
        slope, intercept = scaling(dataset, frame)
        return plane if (slope, intercept) == (1.0, 0.0) else rescaled_exactly(plane, slope, intercept)

    return values


def decoded(dataset: Any) -> np.ndarray:
    """Stored values, YBR turned to RGB; by pydicom, and what it does not decode by GDCM. Raises BadImage."""
    from pydicom.pixels import pixel_array

    if "PixelData" not in dataset:
        name = "FloatPixelData" if "FloatPixelData" in dataset else "DoubleFloatPixelData"
        return np.frombuffer(dataset[name].value, np.float32 if name == "FloatPixelData" else np.float64)
    if getattr(getattr(dataset, "file_meta", None), "TransferSyntaxUID", None) is None:
        plain_syntax(dataset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found: np.ndarray = pixel_array(dataset)
            return found
        except Exception as error:  # each decoder has errors of its own
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            if not dataset.file_meta.TransferSyntaxUID.is_compressed:
                raise BadImage(f"has pixels that cannot be decoded ({reason[:160]})") from error
    return by_gdcm(dataset, reason)


def plain_syntax(dataset: Any) -> None:
    """Files without a meta header are uncompressed, in the byte order in which they were read."""
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian

    implicit, little = dataset.original_encoding
    dataset.file_meta = getattr(dataset, "file_meta", None) or FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = (
        ImplicitVRLittleEndian if implicit else ExplicitVRLittleEndian if little else ExplicitVRBigEndian
    )


_PIXEL_MODULE = (
    "Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "SamplesPerPixel",
    "PlanarConfiguration", "NumberOfFrames", "PixelData",
)  # fmt: skip


def by_gdcm(dataset: Any, reason: str) -> np.ndarray:
    """Stored values of a compressed object. GDCM gets its pixels alone: with the rest it would rescale them, too."""
    import pydicom
    import SimpleITK
    from pydicom.uid import MultiFrameGrayscaleWordSecondaryCaptureImageStorage, SecondaryCaptureImageStorage

    bare = pydicom.Dataset()
    for name in _PIXEL_MODULE:
        if name in dataset:
            bare[name] = dataset[name]
    several = frames_of(dataset) > 1
    bare.SOPClassUID = MultiFrameGrayscaleWordSecondaryCaptureImageStorage if several else SecondaryCaptureImageStorage
    bare.SOPInstanceUID = "1.2.3"
    colour = int(getattr(dataset, "SamplesPerPixel", 1) or 1) > 1
    bare.PhotometricInterpretation = str(dataset.PhotometricInterpretation) if colour else "MONOCHROME2"
    bare.file_meta = pydicom.dataset.FileMetaDataset()
    bare.file_meta.TransferSyntaxUID = dataset.file_meta.TransferSyntaxUID
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pixels.dcm"
        pydicom.dcmwrite(file, bare, enforce_file_format=True)
        try:
            found: np.ndarray = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(file)))
        except RuntimeError as error:
            name = dataset.file_meta.TransferSyntaxUID.name
            raise BadImage(
                f"has pixels that cannot be decoded ({name}: {reason[:120]}); decompress it, as with gdcmconv"
            ) from error
    return found


def palette_colours(stored: np.ndarray, dataset: Any) -> np.ndarray:
    """Bytes of red, green and blue."""
    from pydicom.pixels import apply_color_lut

    found: np.ndarray = apply_color_lut(stored, dataset)
    found = found[..., :3]
    return (found >> 8).astype(np.uint8) if found.dtype == np.uint16 else found
