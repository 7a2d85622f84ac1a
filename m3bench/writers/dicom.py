"""Writing one DICOM series, a file a slice, with identifiers that follow from the seed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MR_IMAGE_STORAGE = "1.2.840.10008.5.1.4.1.1.4"


@dataclass(frozen=True)
class Series:
    """Header facts. `spacing` is (slice, row, column) in mm; dates are YYYYMMDD, times HHMMSS."""

    patient: str
    sex: str
    age: int
    description: str
    date: str
    time: str
    spacing: tuple[float, float, float]
    orientation: tuple[float, float, float, float, float, float]
    manufacturer: str
    study_key: str
    series_key: str


def uid(*key: object) -> str:
    """A valid UID below 2.25 that is the same for the same key."""
    return f"2.25.{int.from_bytes(hashlib.sha256('/'.join(map(str, key)).encode()).digest()[:15], 'big')}"


def write_series(paths: Sequence[Path], volume: NDArray[np.uint16], series: Series) -> None:
    """`volume` is (slices, rows, columns); slice i goes to paths[i]; the middle is the patient's origin."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    along_row, along_column = np.array(series.orientation[:3]), np.array(series.orientation[3:])
    normal = np.cross(along_row, along_column)
    thickness, height, width = series.spacing
    _, rows, columns = volume.shape
    corner = -along_row * width * (columns - 1) / 2 - along_column * height * (rows - 1) / 2
    for number, (path, plane) in enumerate(zip(paths, volume, strict=True)):
        item = Dataset()
        item.file_meta = FileMetaDataset()
        item.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        item.SpecificCharacterSet = "ISO_IR 100"
        item.ImageType = ["ORIGINAL", "PRIMARY", "M"]
        item.SOPClassUID = MR_IMAGE_STORAGE
        item.SOPInstanceUID = uid(series.series_key, number)
        item.StudyDate = item.SeriesDate = item.AcquisitionDate = series.date
        item.StudyTime = item.SeriesTime = series.time
        item.Modality = "MR"
        item.Manufacturer = series.manufacturer
        item.SeriesDescription = series.description
        item.PatientName = item.PatientID = series.patient
        item.PatientSex = series.sex
        item.PatientAge = f"{series.age:03d}Y"
        item.SliceThickness = item.SpacingBetweenSlices = f"{thickness:.3f}"
        item.StudyInstanceUID = uid(series.study_key)
        item.SeriesInstanceUID = uid(series.series_key)
        item.StudyID = "1"
        item.SeriesNumber = 2
        item.InstanceNumber = number + 1
        position = corner + normal * thickness * (number - (len(volume) - 1) / 2)
        item.ImagePositionPatient = [f"{value:.4f}" for value in position]
        item.ImageOrientationPatient = [f"{value:g}" for value in series.orientation]
        item.FrameOfReferenceUID = uid(series.study_key, "frame")
        item.SamplesPerPixel = 1
        item.PhotometricInterpretation = "MONOCHROME2"
        item.Rows, item.Columns = plane.shape
        item.PixelSpacing = [f"{height:.4f}", f"{width:.4f}"]
        item.BitsAllocated, item.BitsStored, item.HighBit, item.PixelRepresentation = 16, 12, 11, 0
        item.PixelData = plane.astype("<u2").tobytes()
        path.parent.mkdir(parents=True, exist_ok=True)
        item.save_as(path, enforce_file_format=True)
