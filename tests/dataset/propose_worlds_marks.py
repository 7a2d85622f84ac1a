"""Worlds of segmentation whose masks are drawn: boxes, polygons, runs and DICOM objects."""

from pathlib import Path

import numpy as np
import pydicom
from propose_files import dicom_series, picture, save_json, table, text
from propose_worlds import World
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian, RTStructureSetStorage, generate_uid


def runs(root: Path) -> None:
    rows: list[dict[str, object]] = []
    for number in range(12):
        picture(root / "train_images" / f"{number:05x}.png")
        rows.append({"ImageId": f"{number:05x}", "EncodedPixels": "43 3 63 3" if number % 3 else "-1"})
    table(root / "train-rle.csv", rows)


def runs_by_class(root: Path) -> None:
    rows: list[dict[str, object]] = []
    for case in range(4):
        for number in range(1, 5):
            picture(root / "train" / f"case{case}" / f"case{case}_slice_{number:04d}.png")
            for name in ("large_bowel", "small_bowel", "stomach"):
                marked = "43 3 63 3" if number % 2 else ""
                rows.append({"id": f"case{case}_slice_{number:04d}", "class": name, "segmentation": marked})
    table(root / "train.csv", rows)


def coco(root: Path) -> None:
    for side, many in (("train", 8), ("valid", 3)):
        images, marks = [], []
        for number in range(many):
            picture(root / side / f"{side}_{number}.jpg")
            images.append({"id": number, "file_name": f"{side}_{number}.jpg", "width": 24, "height": 20})
            box = [2, 3, 6, 5]
            outline = [[2, 3, 8, 3, 8, 8, 2, 8]]
            marks.append(
                {"id": number, "image_id": number, "category_id": 1 + number % 2, "bbox": box, "segmentation": outline}
                | {"area": 30, "iscrowd": 0}
            )
        kinds = [{"id": 1, "name": "caries"}, {"id": 2, "name": "implant"}]
        save_json(root / side / "_annotations.coco.json", {"images": images, "annotations": marks, "categories": kinds})


def yolo(root: Path) -> None:
    for side, many in (("train", 8), ("val", 3)):
        for number in range(many):
            picture(root / "images" / side / f"{side}{number}.jpg")
            text(root / "labels" / side / f"{side}{number}.txt", f"{number % 2} 0.5 0.5 0.25 0.2\n")
    text(
        root / "data.yaml",
        "train: images/train\nval: images/val\nnc: 2\nnames: ['fracture', 'metal']\n",
    )


def voc(root: Path) -> None:
    for number in range(10):
        picture(root / "JPEGImages" / f"BloodImage_{number:05d}.jpg")
        kinds = ("RBC", "WBC")[: 1 + number % 2]
        objects = "".join(
            f"<object><name>{kind}</name><bndbox><xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>8</ymax></bndbox></object>"
            for kind in kinds
        )
        size = "<size><width>24</width><height>20</height><depth>3</depth></size>"
        text(
            root / "Annotations" / f"BloodImage_{number:05d}.xml",
            f"<annotation><filename>BloodImage_{number:05d}.jpg</filename>{size}{objects}</annotation>",
        )


def labelme(root: Path) -> None:
    for number in range(9):
        picture(root / f"xray_{number}.png")
        save_json(
            root / f"xray_{number}.json",
            {
                "version": "5.0.1",
                "shapes": [
                    {"label": "nodule", "points": [[2, 2], [9, 2], [9, 9]], "shape_type": "polygon", "group_id": None}
                ],
                "imagePath": f"xray_{number}.png",
                "imageWidth": 24,
                "imageHeight": 20,
            },
        )


def _saved(data: FileDataset, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path, enforce_file_format=True)


def rtstruct(root: Path) -> None:
    for number in range(1, 7):
        name = f"LUNG1-{number:03d}"
        images = dicom_series(root / name / "study" / "CT", name, prefix="image")
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = RTStructureSetStorage, generate_uid()
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        data = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
        data.SOPClassUID, data.SOPInstanceUID = RTStructureSetStorage, meta.MediaStorageSOPInstanceUID
        data.PatientID, data.Modality = name, "RTSTRUCT"
        data.StudyInstanceUID, data.SeriesInstanceUID = images[0].StudyInstanceUID, generate_uid()
        referred_series = Dataset()
        referred_series.SeriesInstanceUID = images[0].SeriesInstanceUID
        referred_series.ContourImageSequence = Sequence()
        for image in images:
            item = Dataset()
            item.ReferencedSOPClassUID, item.ReferencedSOPInstanceUID = image.SOPClassUID, image.SOPInstanceUID
            referred_series.ContourImageSequence.append(item)
        study = Dataset()
        study.ReferencedSOPInstanceUID = images[0].StudyInstanceUID
        study.RTReferencedSeriesSequence = Sequence([referred_series])
        frame = Dataset()
        frame.FrameOfReferenceUID = images[0].FrameOfReferenceUID
        frame.RTReferencedStudySequence = Sequence([study])
        data.ReferencedFrameOfReferenceSequence = Sequence([frame])
        data.StructureSetROISequence, data.ROIContourSequence = Sequence(), Sequence()
        for roi, structure in ((1, "GTV-1"), (2, "Heart")):
            named = Dataset()
            named.ROINumber, named.ROIName = roi, structure
            named.ReferencedFrameOfReferenceUID = images[0].FrameOfReferenceUID
            data.StructureSetROISequence.append(named)
            contour = Dataset()
            contour.ContourGeometricType, contour.NumberOfContourPoints = "CLOSED_PLANAR", 4
            contour.ContourData = [1, 1, 2, 4, 1, 2, 4, 4, 2, 1, 4, 2]
            drawn = Dataset()
            drawn.ReferencedROINumber, drawn.ContourSequence = roi, Sequence([contour])
            data.ROIContourSequence.append(drawn)
        _saved(data, root / name / "study" / "RTSTRUCT" / "1-1.dcm")


def dicom_seg(root: Path) -> None:
    """Binary SEG objects as TCIA has them, written with as few attributes as a reader needs."""
    for number in range(1, 7):
        name = f"PAT-{number:03d}"
        images = dicom_series(root / name / "study" / "CT", name, prefix="1-")
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.66.4"
        meta.MediaStorageSOPInstanceUID, meta.TransferSyntaxUID = generate_uid(), ExplicitVRLittleEndian
        data = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
        data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
        data.PatientID, data.Modality, data.SegmentationType = name, "SEG", "BINARY"
        data.StudyInstanceUID, data.SeriesInstanceUID = images[0].StudyInstanceUID, generate_uid()
        data.FrameOfReferenceUID = images[0].FrameOfReferenceUID
        series = Dataset()
        series.SeriesInstanceUID = images[0].SeriesInstanceUID
        series.ReferencedInstanceSequence = Sequence([_reference(image) for image in images])
        data.ReferencedSeriesSequence = Sequence([series])
        segment = Dataset()
        segment.SegmentNumber, segment.SegmentLabel, segment.SegmentAlgorithmType = 1, "Lesion", "MANUAL"
        data.SegmentSequence = Sequence([segment])
        data.NumberOfFrames, data.Rows, data.Columns, data.SamplesPerPixel = len(images), 8, 8, 1
        data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 1, 1, 0, 0
        data.PhotometricInterpretation = "MONOCHROME2"
        shared = Dataset()
        orientation, measures = Dataset(), Dataset()
        orientation.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        measures.PixelSpacing, measures.SliceThickness = [1.0, 1.0], 2.0
        shared.PlaneOrientationSequence = Sequence([orientation])
        shared.PixelMeasuresSequence = Sequence([measures])
        data.SharedFunctionalGroupsSequence = Sequence([shared])
        data.PerFrameFunctionalGroupsSequence = Sequence([_frame(image) for image in images])
        bits = np.zeros((len(images), 8, 8), np.uint8)
        bits[:, 2:5, 2:5] = 1
        data.PixelData = np.packbits(bits.ravel(), bitorder="little").tobytes()
        _saved(data, root / name / "study" / "SEG" / "1-1.dcm")


def _reference(image: pydicom.Dataset) -> Dataset:
    item = Dataset()
    item.ReferencedSOPClassUID, item.ReferencedSOPInstanceUID = image.SOPClassUID, image.SOPInstanceUID
    return item


def _frame(image: pydicom.Dataset) -> Dataset:
    frame, position, segment, derivation = Dataset(), Dataset(), Dataset(), Dataset()
    position.ImagePositionPatient = image.ImagePositionPatient
    segment.ReferencedSegmentNumber = 1
    derivation.SourceImageSequence = Sequence([_reference(image)])
    frame.PlanePositionSequence = Sequence([position])
    frame.SegmentIdentificationSequence = Sequence([segment])
    frame.DerivationImageSequence = Sequence([derivation])
    return frame


WORLDS = {
    "runs": World(runs, "anomaly_detection", 12, 12, dimensions=2),
    "runs by class": World(
        runs_by_class, "organ_segmentation", 16, 4, names=("large_bowel", "small_bowel", "stomach"), dimensions=2
    ),
    "COCO": World(coco, "anomaly_detection", 11, 11, names=("caries", "implant"), splits={"train": 8, "val": 3}),
    "YOLO": World(yolo, "anomaly_detection", 11, 11, names=("fracture", "metal"), splits={"train": 8, "val": 3}),
    "VOC": World(voc, "anomaly_detection", 10, 10, names=("RBC", "WBC")),
    "labelme": World(labelme, "anomaly_detection", 9, 9, names=("nodule",)),
    "RTSTRUCT": World(rtstruct, "organ_segmentation", 6, 6, names=("GTV-1", "Heart"), dimensions=3),
    "DICOM SEG": World(dicom_seg, "anomaly_detection", 6, 6, names=("Lesion",), dimensions=3),
}
