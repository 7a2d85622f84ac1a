"""Small real files of every form that the worlds of `propose_*` are made of."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import nibabel
import numpy as np
import pydicom
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

RANDOM = np.random.default_rng(5)


def picture(path: Path, size: tuple[int, int] = (24, 20)) -> None:
    """A grey picture, `size` is width and height; PNG or JPEG by its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RANDOM.integers(0, 255, (size[1], size[0]), dtype=np.uint8)).save(path)


def slices(folder: Path, count: int, name: str = "{:04d}.png") -> None:
    """Pictures of neighbouring slices: a blob that grows and shrinks from one to the next, over a body of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    body = RANDOM.normal(120, 18, (20, 24)).clip(60, 180)
    y, x = np.mgrid[:20, :24]
    for number in range(count):
        radius = 3 + 6 * np.sin(np.pi * (number + 1) / (count + 1))
        blob = 70 * ((x - 12) ** 2 + (y - 10) ** 2 < radius**2)
        Image.fromarray((body + blob).clip(0, 255).astype(np.uint8)).save(folder / name.format(number))


def mask_picture(path: Path, values: Sequence[int] = (255,), size: tuple[int, int] = (24, 20)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((size[1], size[0]), np.uint8)
    for number, value in enumerate(values):
        pixels[2 + 5 * number : 6 + 5 * number, 3:9] = value
    Image.fromarray(pixels).save(path)


def palette_picture(path: Path, colors: Sequence[tuple[int, int, int]], size: tuple[int, int] = (24, 20)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    for number, color in enumerate(colors):
        pixels[2 + 5 * number : 6 + 5 * number, 3:9] = color
    Image.fromarray(pixels).save(path)


def volume(path: Path, shape: tuple[int, ...] = (8, 7, 6)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    voxels = RANDOM.integers(-500, 900, shape).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(voxels, np.diag([1.0, 1.0, 2.0, 1.0])), path)


def mask_volume(path: Path, values: Sequence[int] = (1,), shape: tuple[int, int, int] = (8, 7, 6)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    voxels = np.zeros(shape, np.uint8)
    for number, value in enumerate(values):
        voxels[number % 8, 1:4, 1:4] = value
    nibabel.save(nibabel.Nifti1Image(voxels, np.diag([1.0, 1.0, 2.0, 1.0])), path)


def dicom_series(
    folder: Path, patient: str, slices: int = 6, prefix: str = "", study: str | None = None, described: str = ""
) -> list[pydicom.Dataset]:
    """A CT series of a few slices; its files are `prefix` and a number."""
    folder.mkdir(parents=True, exist_ok=True)
    series, study = generate_uid(), study or generate_uid()
    made = []
    for number in range(slices):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = CTImageStorage
        meta.MediaStorageSOPInstanceUID = generate_uid()
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        data = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
        data.SOPClassUID, data.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
        data.PatientID, data.Modality, data.SeriesDescription = patient, "CT", described
        data.SeriesInstanceUID, data.StudyInstanceUID, data.FrameOfReferenceUID = series, study, f"{study[:60]}.7"
        data.InstanceNumber = number + 1
        data.ImagePositionPatient, data.ImageOrientationPatient = [0, 0, number * 2.0], [1, 0, 0, 0, 1, 0]
        data.PixelSpacing, data.SliceThickness = [1.0, 1.0], 2.0
        data.Rows, data.Columns, data.SamplesPerPixel = 8, 8, 1
        data.PhotometricInterpretation = "MONOCHROME2"
        data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 16, 15, 1
        data.RescaleSlope, data.RescaleIntercept = 1, 0
        data.PixelData = RANDOM.integers(-900, 900, (8, 8)).astype(np.int16).tobytes()
        data.save_as(folder / f"{prefix}{number + 1:03d}.dcm", enforce_file_format=True)
        made.append(data)
    return made


def table(path: Path, rows: Sequence[Mapping[str, object]], separator: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)


def save_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def text(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
