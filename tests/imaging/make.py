"""Real files for the tests: DICOM series and objects, as scanners and annotation programs write them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

CT = "1.2.840.10008.5.1.4.1.1.2"
AXIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def oblique(degrees: float = 20.0) -> tuple[float, ...]:
    """Directions of rows and columns, turned about two axes."""
    a, b = np.radians([degrees, degrees / 2])
    first = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    second = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    turned = first @ second
    return (*turned[:, 0], *turned[:, 1])


def dicom(path: Path, pixels: np.ndarray, **elements: Any) -> Dataset:
    """Write one object; `pixels` (H, W), (H, W, 3) or (frames, H, W) unsigned or signed; `syntax` and `preamble` are
    not elements."""
    syntax, preamble = elements.pop("syntax", ExplicitVRLittleEndian), elements.pop("preamble", True)
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID, dataset.SOPInstanceUID = CT, generate_uid()
    dataset.SeriesInstanceUID = "1.2.3.4"
    dataset.Modality, dataset.PatientID, dataset.PatientName = "CT", "p1", "Doe^Jane"
    colour = pixels.ndim == 3 and pixels.shape[-1] == 3
    dataset.Rows, dataset.Columns = pixels.shape[:2] if colour or pixels.ndim == 2 else pixels.shape[1:]
    if pixels.ndim == 3 and not colour:
        dataset.NumberOfFrames = len(pixels)
    dataset.SamplesPerPixel = 3 if colour else 1
    if colour:
        dataset.PlanarConfiguration = 0
    dataset.PhotometricInterpretation = "RGB" if colour else "MONOCHROME2"
    dataset.BitsAllocated = dataset.BitsStored = 8 * pixels.itemsize
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelRepresentation = int(pixels.dtype.kind == "i")
    dataset.PixelData = pixels.tobytes()
    for name, value in elements.items():
        setattr(dataset, name, value)
    if syntax != ExplicitVRLittleEndian:
        dataset.compress(syntax, generate_instance_uid=False)
    if preamble:
        dataset.save_as(path, enforce_file_format=True)
    else:
        meta = dataset.file_meta
        del dataset.file_meta
        pydicom.dcmwrite(path, dataset, implicit_vr=False, little_endian=True)
        dataset.file_meta = meta
    return dataset


def series(
    folder: Path,
    volume: np.ndarray,
    directions: Sequence[float] = AXIAL,
    spacing: tuple[float, float, float] = (0.5, 0.75, 2.0),
    origin: Sequence[float] = (-30.0, 12.0, 100.0),
    **elements: Any,
) -> list[Path]:
    """(X, Y, Z) stored values as a CT series, in files whose names are in no order; spacing (x, y, z) in mm."""
    folder.mkdir(parents=True, exist_ok=True)
    across, down = np.array(directions).reshape(2, 3)
    normal = np.cross(across, down)
    files = []
    for number in range(volume.shape[2]):
        file = folder / f"{-number % volume.shape[2]:03d}.dcm"
        dicom(
            file,
            np.ascontiguousarray(volume[:, :, number].T),
            **{
                "ImagePositionPatient": [float(f"{v:.10g}") for v in np.array(origin) + normal * spacing[2] * number],
                "ImageOrientationPatient": [float(f"{value:.12g}") for value in directions],
                "PixelSpacing": [spacing[1], spacing[0]],
                "SliceThickness": spacing[2],
                "InstanceNumber": volume.shape[2] - number,
                "RescaleSlope": 1,
                "RescaleIntercept": -1024,
                **elements,
            },
        )
        files.append(file)
    return sorted(files)


def sequence(**elements: Any) -> pydicom.Sequence:
    """One item with these elements."""
    item = Dataset()
    for name, value in elements.items():
        setattr(item, name, value)
    return pydicom.Sequence([item])


def seg(
    path: Path,
    masks: dict[str, np.ndarray],
    directions: Sequence[float],
    spacing: tuple[float, float, float],
    origin: Sequence[float],
    fractional: bool = False,
) -> None:
    """(X, Y, Z) masks as a segmentation object, frames of slices that hold something, in no order."""
    across, down = np.array(directions).reshape(2, 3)
    normal = np.cross(across, down)
    frames, groups, names = [], [], []
    for number, (name, mask) in enumerate(masks.items(), 1):
        names.append(sequence(SegmentNumber=number, SegmentLabel=name, SegmentAlgorithmType="MANUAL")[0])
        for z in reversed(range(mask.shape[2])):
            if not mask[:, :, z].any():
                continue
            frames.append(mask[:, :, z].T)
            place = [float(f"{value:.10g}") for value in np.array(origin) + normal * spacing[2] * z]
            groups.append(
                sequence(
                    PlanePositionSequence=sequence(ImagePositionPatient=place),
                    SegmentIdentificationSequence=sequence(ReferencedSegmentNumber=number),
                )[0]
            )
    stack = np.stack(frames)
    pixels = (stack * 200).astype(np.uint8) if fractional else stack.astype(np.uint8)
    dicom(
        path,
        pixels,
        Modality="SEG",
        SegmentationType="FRACTIONAL" if fractional else "BINARY",
        MaximumFractionalValue=255,
        SegmentSequence=pydicom.Sequence(names),
        PerFrameFunctionalGroupsSequence=pydicom.Sequence(groups),
        SharedFunctionalGroupsSequence=sequence(
            PlaneOrientationSequence=sequence(ImageOrientationPatient=[float(f"{v:.12g}") for v in directions]),
            PixelMeasuresSequence=sequence(PixelSpacing=[spacing[1], spacing[0]], SliceThickness=spacing[2]),
        ),
        **(
            {}
            if fractional
            else {
                "BitsAllocated": 1, "BitsStored": 1, "HighBit": 0,
                "PixelData": np.packbits(stack.astype(np.uint8).ravel(), bitorder="little").tobytes() + b"\0",
            }
        ),
    )  # fmt: skip


def rtstruct(path: Path, contours: dict[str, list[np.ndarray]]) -> None:
    """Name -> closed contours, each (n, 3) mm in LPS."""
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID, dataset.SOPInstanceUID, dataset.Modality = "1.2.840.10008.5.1.4.1.1.481.3", "1.2.9", "RTSTRUCT"
    dataset.StructureSetROISequence = pydicom.Sequence(
        [sequence(ROINumber=number, ROIName=name)[0] for number, name in enumerate(contours, 1)]
    )
    dataset.ROIContourSequence = pydicom.Sequence(
        [
            sequence(
                ReferencedROINumber=number,
                ContourSequence=pydicom.Sequence(
                    [
                        sequence(
                            ContourGeometricType="CLOSED_PLANAR",
                            NumberOfContourPoints=len(points),
                            ContourData=[float(f"{value:.9g}") for value in points.ravel()],
                        )[0]
                        for points in lines
                    ]
                ),
            )[0]
            for number, lines in enumerate(contours.values(), 1)
        ]
    )
    dataset.save_as(path, enforce_file_format=True)
