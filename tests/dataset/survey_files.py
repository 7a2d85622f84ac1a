"""Small real files for tests of the survey and the profile: films, slices that go on, volumes, masks, DICOM."""

from pathlib import Path

import nibabel
import numpy as np
import pydicom
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

SHAPE = (14, 12, 8)
AFFINE = np.diag([0.8, 0.8, 2.0, 1.0])


def texture(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Smooth shapes of their own for each seed, 0 to 1, as images of different people."""
    random = np.random.default_rng(seed)
    coarse = random.random(tuple(-(-edge // 4) + 1 for edge in shape))
    for axis, edge in enumerate(shape):
        coarse = np.repeat(coarse, 4, axis=axis).take(range(edge), axis=axis)
    return coarse * 0.8 + random.random(shape) * 0.2


def picture(path: Path, seed: int, size: tuple[int, int] = (20, 24), colour: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    grey = (texture(seed, size) * 255).astype(np.uint8)
    Image.fromarray(np.stack([grey, grey // 2, 255 - grey], -1) if colour else grey).save(path)
    return path


def slices(folder: Path, seed: int, count: int = 8, name: str = "{:04d}.png") -> None:
    """Each slice is nearly the one before it."""
    folder.mkdir(parents=True, exist_ok=True)
    first, last = texture(seed, (24, 24)), texture(seed + 5000, (24, 24))
    for number in range(count):
        part = number / max(1, count - 1)
        Image.fromarray(((first * (1 - part) + last * part) * 255).astype(np.uint8)).save(folder / name.format(number))


def mask_picture(path: Path, values: tuple[int, ...] = (255,), size: tuple[int, int] = (20, 24)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros(size, np.uint8)
    for number, value in enumerate(values):
        pixels[2:12, 2 + 4 * number : 6 + 4 * number] = value
    Image.fromarray(pixels).save(path)
    return path


def volume(
    path: Path, seed: int, shape: tuple[int, ...] = SHAPE, affine: np.ndarray = AFFINE, hu: bool = False
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    voxels = texture(seed, shape) * (2000 if hu else 900) - (1000 if hu else 0)
    nibabel.save(nibabel.Nifti1Image(voxels.astype(np.int16), affine), path)
    return path


def mask_volume(
    path: Path, values: tuple[int, ...] = (1,), shape: tuple[int, ...] = SHAPE, affine: np.ndarray = AFFINE
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    voxels = np.zeros(shape, np.uint8)
    for number, value in enumerate(values):
        voxels[2:8, 1 + 2 * number : 3 + 2 * number, 2:6] = value
    nibabel.save(nibabel.Nifti1Image(voxels, affine), path)
    return path


def series(folder: Path, patient: str, seed: int = 0, count: int = 5, name: str = "IM{:04d}.dcm", **tags: str) -> None:
    """A DICOM CT series; `tags` are further elements."""
    folder.mkdir(parents=True, exist_ok=True)
    uid = generate_uid(entropy_srcs=[str(folder), str(seed), patient])
    for number in range(1, count + 1):
        meta = FileMetaDataset()
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        meta.MediaStorageSOPClassUID = CTImageStorage
        meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[uid, str(number)])
        data = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
        data.SOPClassUID, data.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
        data.PatientID, data.SeriesInstanceUID, data.StudyInstanceUID = patient, uid, uid
        data.Modality, data.InstanceNumber = "CT", number
        for keyword, value in tags.items():
            setattr(data, keyword, value)
        data.Rows = data.Columns = 16
        data.BitsAllocated = data.BitsStored = 16
        data.HighBit, data.PixelRepresentation, data.SamplesPerPixel = 15, 0, 1
        data.PhotometricInterpretation = "MONOCHROME2"
        data.PixelSpacing, data.SliceThickness = [0.7, 0.7], 3
        data.ImagePositionPatient, data.ImageOrientationPatient = [0, 0, 3.0 * number], [1, 0, 0, 0, 1, 0]
        data.RescaleIntercept, data.RescaleSlope = -1024, 1
        data.PixelData = (texture(seed * 50, (16, 16)) * 1800).astype(np.uint16).tobytes()
        pydicom.dcmwrite(folder / name.format(number), data, enforce_file_format=True)


def table(path: Path, *rows: object, separator: str = ",") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(separator.join(map(str, row)) if isinstance(row, tuple) else str(row) for row in rows))
    return path


def sentence(number: int) -> str:
    side, what = (
        ("left", "right")[number % 2],
        ("a small effusion", "no consolidation", "a nodule", "a mass")[number % 4],
    )
    return f"There is {what} in the {side} lung in study {number}. The heart is of normal size."
