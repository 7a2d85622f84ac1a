"""DICOM as scanners and archives write it: series, films, SEG and RTSTRUCT. Every person is a canary."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pydicom
import SimpleITK as sitk
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGLosslessSV1,
    RLELossless,
    generate_uid,
)
from skimage.measure import find_contours

from .base import Build

CLASSES = {
    "CT": "1.2.840.10008.5.1.4.1.1.2",
    "MR": "1.2.840.10008.5.1.4.1.1.4",
    "DX": "1.2.840.10008.5.1.4.1.1.1.1",
    "CR": "1.2.840.10008.5.1.4.1.1.1",
    "MG": "1.2.840.10008.5.1.4.1.1.1.2",
    "SEG": "1.2.840.10008.5.1.4.1.1.66.4",
    "RTSTRUCT": "1.2.840.10008.5.1.4.1.1.481.3",
}
SYNTAX = {
    "explicit": ExplicitVRLittleEndian,
    "implicit": ImplicitVRLittleEndian,
    "deflated": DeflatedExplicitVRLittleEndian,
    "rle": RLELossless,
    "jpeg": JPEGLosslessSV1,
    "j2k": JPEG2000Lossless,
}
SPACING, ORIGIN = (1.5, 1.5, 3.0), (-27.0, -22.5, -300.0)


def uid(*parts: object) -> str:
    """A UID that depends on the parts alone."""
    return generate_uid(entropy_srcs=[str(p) for p in parts])


def blank(modality: str, patient: str, study: str, series: str, sop: str, syntax: str = "explicit") -> FileDataset:
    """A data set with the patient, study and series modules filled in."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CLASSES[modality]
    meta.MediaStorageSOPInstanceUID = sop
    meta.TransferSyntaxUID = SYNTAX["explicit" if syntax == "rle" else syntax]  # compress() sets RLE
    meta.ImplementationClassUID = "1.2.826.0.1.3680043.9.3811.2.1.0"
    ds = FileDataset("", {}, file_meta=meta, preamble=bytes(128))
    ds.SpecificCharacterSet = "ISO_IR 100"
    ds.SOPClassUID, ds.SOPInstanceUID = CLASSES[modality], sop
    ds.PatientID, ds.PatientName = patient, "CANARY^NAME"
    ds.PatientBirthDate, ds.PatientSex, ds.PatientAge = "19550101", "F", "064Y"
    ds.InstitutionName, ds.ReferringPhysicianName = "CANARY HOSPITAL", "CANARY^DOCTOR"
    ds.StudyInstanceUID, ds.SeriesInstanceUID = study, series
    ds.FrameOfReferenceUID = uid(study, "frame")
    ds.StudyDate, ds.StudyTime, ds.StudyID, ds.AccessionNumber = "20190304", "101112", "1", ""
    ds.Modality, ds.Manufacturer = modality, "CANARY SCANNERS"
    ds.SeriesNumber = ds.InstanceNumber = 1
    return ds


def pixels(ds: FileDataset, array: np.ndarray, syntax: str = "explicit") -> None:
    """Puts an array (rows, columns) of uint16 or uint8 in, compressed as the syntax says."""
    ds.Rows, ds.Columns = array.shape
    ds.SamplesPerPixel, ds.PixelRepresentation = 1, 0
    ds.PhotometricInterpretation = ds.get("PhotometricInterpretation", "MONOCHROME2")
    ds.BitsAllocated = ds.BitsStored = 8 * array.dtype.itemsize
    ds.HighBit = ds.BitsStored - 1
    if syntax in ("jpeg", "j2k"):
        with tempfile.TemporaryDirectory() as folder:
            writer = sitk.ImageFileWriter()
            writer.SetFileName(str(Path(folder) / "x.dcm"))
            writer.UseCompressionOn()
            writer.SetCompressor("JPEG" if syntax == "jpeg" else "JPEG2000")
            writer.Execute(sitk.GetImageFromArray(np.ascontiguousarray(array)[None]))
            other = pydicom.dcmread(writer.GetFileName())
        ds.file_meta.TransferSyntaxUID = other.file_meta.TransferSyntaxUID
        ds.PixelData = other.PixelData
        ds["PixelData"].VR, ds["PixelData"].is_undefined_length = "OB", True
    else:
        ds.PixelData = array.astype(array.dtype.newbyteorder("<")).tobytes()
        ds["PixelData"].VR = "OW" if array.dtype.itemsize == 2 else "OB"
        if syntax == "rle":
            ds.compress(RLELossless, generate_instance_uid=False)


def save(b: Build, path: str, ds: FileDataset) -> str:
    ds.save_as(b.at(path), enforce_file_format=True, overwrite=True)
    return path


def series(
    b: Build,
    folder: str,
    volume: np.ndarray,
    patient: str,
    modality: str = "CT",
    *,
    study: str | None = None,
    number: int = 2,
    title: str = "AX 3.0",
    name: str = "{i:04d}.dcm",
    syntax: str = "explicit",
    start: int = 1,
    flip: bool = False,
) -> tuple[list[str], list[str]]:
    """Writes a volume (X, Y, Z) a slice a file; returns paths and SOP UIDs from the feet up.

    `name` takes i, the InstanceNumber; with `flip` instance numbers run from the head down, as many scanners count.
    """
    study = study or uid(patient, "study")
    one = uid(study, number, title)
    depth = volume.shape[2]
    paths, sops = [], []
    ds = blank(modality, patient, study, one, one, syntax)
    ds.StudyDescription, ds.SeriesDescription = "STUDY", title
    ds.SeriesNumber, ds.ImageType = number, ["ORIGINAL", "PRIMARY", "AXIAL"]
    ds.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    ds.PixelSpacing, ds.SliceThickness = [SPACING[1], SPACING[0]], SPACING[2]
    low = -1024 if modality == "CT" else 0
    if modality == "CT":
        ds.RescaleIntercept, ds.RescaleSlope, ds.RescaleType = low, 1, "HU"
        ds.WindowCenter, ds.WindowWidth = 40, 400
    for z in range(depth):
        i = start + (depth - 1 - z if flip else z)
        ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = uid(one, z)
        ds.InstanceNumber, ds.SliceLocation = i, ORIGIN[2] + z * SPACING[2]
        ds.ImagePositionPatient = [ORIGIN[0], ORIGIN[1], ORIGIN[2] + z * SPACING[2]]
        pixels(ds, (volume[:, :, z].T - low).astype(np.uint16), syntax)
        paths.append(save(b, f"{folder}/{name.format(i=i)}".lstrip("/"), ds))
        sops.append(ds.SOPInstanceUID)
    return paths, sops


def film(
    b: Build,
    path: str,
    picture: np.ndarray,
    patient: str,
    modality: str = "DX",
    syntax: str = "explicit",
    **tags: object,
) -> str:
    """Writes a picture (H, W) uint8 as a projection; `tags` are keywords. MONOCHROME1 is stored inverted."""
    study = uid(patient, tags.get("AccessionNumber", "study"))
    ds = blank(modality, patient, study, uid(study, "film"), uid(study, path), syntax)
    ds.PixelSpacing = [3.0, 3.0]
    for key, value in tags.items():
        setattr(ds, key, value)
    stored = picture.astype(np.uint16) * 16
    if tags.get("PhotometricInterpretation") == "MONOCHROME1":
        stored = 4080 - stored
    pixels(ds, stored.astype(np.uint16), syntax)
    return save(b, path, ds)


def item(**tags: object) -> Dataset:
    ds = Dataset()
    for key, value in tags.items():
        setattr(ds, key, value)
    return ds


def code(value: str, meaning: str) -> list[Dataset]:
    return [item(CodeValue=value, CodingSchemeDesignator="SCT", CodeMeaning=meaning)]


def segmentation(
    b: Build, path: str, patient: str, masks: dict[str, np.ndarray], sops: Sequence[str], study: str | None = None
) -> str:
    """Writes masks (X, Y, Z) as a binary SEG: only slices that hold something, segment after segment."""
    study = study or uid(patient, "study")
    ds = blank("SEG", patient, study, uid(study, "seg"), uid(study, "seg", 1))
    ds.SeriesDescription, ds.SeriesNumber, ds.ImageType = "Segmentation", 300, ["DERIVED", "PRIMARY"]
    ds.ContentLabel, ds.ContentDescription, ds.ContentCreatorName = "SEGMENTATION", "", "CANARY^READER"
    ds.SegmentationType, ds.LossyImageCompression = "BINARY", "00"
    ds.SegmentSequence, frames, per_frame = [], [], []
    for number, (name, mask) in enumerate(masks.items(), 1):
        ds.SegmentSequence.append(
            item(
                SegmentNumber=number,
                SegmentLabel=name,
                SegmentAlgorithmType="MANUAL",
                SegmentedPropertyCategoryCodeSequence=code("123037004", "Anatomical Structure"),
                SegmentedPropertyTypeCodeSequence=code(f"1000{number}", name),
            )
        )
        for z in np.flatnonzero(mask.any(axis=(0, 1))):
            frames.append(mask[:, :, z].T)
            place = [ORIGIN[0], ORIGIN[1], ORIGIN[2] + int(z) * SPACING[2]]
            source = item(ReferencedSOPClassUID=CLASSES["CT"], ReferencedSOPInstanceUID=sops[z])
            per_frame.append(
                item(
                    FrameContentSequence=[item(DimensionIndexValues=[number, int(z) + 1])],
                    PlanePositionSequence=[item(ImagePositionPatient=place)],
                    SegmentIdentificationSequence=[item(ReferencedSegmentNumber=number)],
                    DerivationImageSequence=[item(SourceImageSequence=[source])],
                )
            )
    ds.SharedFunctionalGroupsSequence = [
        item(
            PlaneOrientationSequence=[item(ImageOrientationPatient=[1, 0, 0, 0, 1, 0])],
            PixelMeasuresSequence=[item(PixelSpacing=[SPACING[1], SPACING[0]], SliceThickness=SPACING[2])],
        )
    ]
    ds.PerFrameFunctionalGroupsSequence = per_frame
    ds.ReferencedSeriesSequence = [item(SeriesInstanceUID=uid(study, 2, "AX 3.0"))]
    ds.NumberOfFrames = len(frames)
    ds.Rows, ds.Columns = frames[0].shape
    ds.SamplesPerPixel, ds.PixelRepresentation, ds.PhotometricInterpretation = 1, 0, "MONOCHROME2"
    ds.BitsAllocated, ds.BitsStored, ds.HighBit = 1, 1, 0
    bits = np.packbits(np.concatenate([f.ravel() for f in frames]), bitorder="little").tobytes()
    ds.PixelData = bits + b"\0" * (len(bits) % 2)
    ds["PixelData"].VR = "OB"
    return save(b, path, ds)


def structures(b: Build, path: str, patient: str, masks: dict[str, np.ndarray], sops: Sequence[str]) -> str:
    """Writes masks (X, Y, Z) as the closed contours of an RTSTRUCT, halfway between pixel centres."""
    study = uid(patient, "study")
    ds = blank("RTSTRUCT", patient, study, uid(study, "rt"), uid(study, "rt", 1))
    ds.StructureSetLabel, ds.StructureSetDate, ds.StructureSetTime = "PLAN1", "20190305", "080000"
    ds.SeriesDescription, ds.SeriesNumber = "RTstruct", 400
    ds.StructureSetROISequence, ds.ROIContourSequence, ds.RTROIObservationsSequence = [], [], []
    ds.ReferencedFrameOfReferenceSequence = [item(FrameOfReferenceUID=ds.FrameOfReferenceUID)]
    for number, (name, mask) in enumerate(masks.items(), 1):
        ds.StructureSetROISequence.append(
            item(
                ROINumber=number,
                ReferencedFrameOfReferenceUID=ds.FrameOfReferenceUID,
                ROIName=name,
                ROIGenerationAlgorithm="MANUAL",
            )
        )
        contours = []
        for z in np.flatnonzero(mask.any(axis=(0, 1))):
            for line in find_contours(np.pad(mask[:, :, z].astype(float), 1), 0.5):
                points = (line[:-1] - 1) * SPACING[:2] + ORIGIN[:2]
                height = ORIGIN[2] + int(z) * SPACING[2]
                data = [f"{v:.3f}" for x, y in points for v in (x, y, height)]
                contours.append(
                    item(
                        ContourImageSequence=[
                            item(ReferencedSOPClassUID=CLASSES["CT"], ReferencedSOPInstanceUID=sops[z])
                        ],
                        ContourGeometricType="CLOSED_PLANAR",
                        NumberOfContourPoints=len(points),
                        ContourData=data,
                    )
                )
        ds.ROIContourSequence.append(
            item(ROIDisplayColor=[255, 40 * number, 0], ContourSequence=contours, ReferencedROINumber=number)
        )
        ds.RTROIObservationsSequence.append(
            item(ObservationNumber=number, ReferencedROINumber=number, RTROIInterpretedType="ORGAN", ROIInterpreter="")
        )
    return save(b, path, ds)
