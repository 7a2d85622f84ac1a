"""Small datasets written into a folder, and rules carried out on them."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pydicom
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from shared.contracts.rules import Rules
from shared.dataset.rules.resolve import Resolution, resolve


def picture(path: Path, *values: int) -> None:
    """A grey PNG of 4 x 3 pixels that holds `values`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.zeros((3, 4), np.uint8)
    array.flat[: len(values)] = values
    Image.fromarray(array).save(path)


def volume(path: Path, *values: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.zeros((4, 3, 2), np.int16)
    array.flat[: len(values)] = values
    nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), path)


def text(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def dicom(path: Path, patient: str, series: str, number: int = 1, **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = (
        CTImageStorage,
        generate_uid(entropy_srcs=[str(path)]),
    )
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    found = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    found.SOPClassUID, found.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
    found.PatientID, found.SeriesInstanceUID, found.Modality = patient, uid(series), "CT"
    found.StudyInstanceUID, found.InstanceNumber = uid(patient), number
    for keyword, value in more.items():
        setattr(found, keyword, value)
    if found.Modality == "CT":
        found.Rows, found.Columns, found.BitsAllocated, found.BitsStored, found.HighBit = 4, 4, 16, 12, 11
        found.SamplesPerPixel, found.PixelRepresentation, found.PhotometricInterpretation = 1, 0, "MONOCHROME2"
        found.PixelData = bytes(32)
    found.save_as(path, enforce_file_format=True)


def uid(name: str) -> str:
    return str(generate_uid(entropy_srcs=[name]))


def segmentation(path: Path, series: str, *names: str) -> None:
    """Head of a DICOM SEG that refers to a series."""
    segments, referred = [], pydicom.Dataset()
    referred.SeriesInstanceUID = uid(series)
    for number, name in enumerate(names, 1):
        segment = pydicom.Dataset()
        segment.SegmentNumber, segment.SegmentLabel = number, name
        segments.append(segment)
    more = {"SegmentSequence": Sequence(segments), "ReferencedSeriesSequence": Sequence([referred])}
    dicom(path, "x", path.name, Modality="SEG", **more)


def structure_set(path: Path, series: str, *names: str) -> None:
    """Head of an RTSTRUCT that refers to a series."""
    rois, one, study, frame = [], pydicom.Dataset(), pydicom.Dataset(), pydicom.Dataset()
    for number, name in enumerate(names, 1):
        roi = pydicom.Dataset()
        roi.ROINumber, roi.ROIName = number, name
        rois.append(roi)
    one.SeriesInstanceUID = uid(series)
    study.RTReferencedSeriesSequence = Sequence([one])
    frame.RTReferencedStudySequence = Sequence([study])
    more = {"StructureSetROISequence": Sequence(rois), "ReferencedFrameOfReferenceSequence": Sequence([frame])}
    dicom(path, "x", path.name, Modality="RTSTRUCT", **more)


def seg_nrrd(path: Path, names: dict[int, str], layers: int = 1, size: tuple[int, int, int] = (4, 3, 2)) -> None:
    """A segmentation of 3D Slicer: of each value one voxel."""
    import SimpleITK

    path.parent.mkdir(parents=True, exist_ok=True)
    image = SimpleITK.Image(size, SimpleITK.sitkUInt8)
    for place, (value, name) in enumerate(names.items()):
        image[place, 0, 0] = value
        for key, said in (("Name", name), ("LabelValue", str(value)), ("Layer", str(place % layers))):
            image.SetMetaData(f"Segment{place}_{key}", said)
    SimpleITK.WriteImage(image, path)


def carried_out(root: Path, task: str = "diagnosis", dimensions: int = 2, **rules: Any) -> Resolution:
    """Rules from plain values; `images` may be one pattern."""
    if isinstance(rules.get("images"), str):
        rules["images"] = [{"files": rules["images"]}]
    return resolve(Rules.model_validate({"task": task, "dimensions": dimensions, **rules}), root)


def files(done: Resolution) -> dict[str, list[str]]:
    """Key of each case -> its files, views and channels in order."""
    return {case.key: [file for view in case.images for part in view for file in part.files] for case in done.cases}
