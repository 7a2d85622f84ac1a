"""Layouts of datasets as they are met, and what a survey must say of each."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.dataset.survey_files import mask_picture, mask_volume, picture, sentence, series, slices, table, volume

MASKS = {"organ_segmentation": 1.0, "anomaly_detection": 1.0}


@dataclass(frozen=True)
class Layout:
    make: Callable[[Path], None]
    dimensions: dict[str, int]
    tasks: dict[str, float] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    """Patterns of the image families."""
    masks: tuple[str, ...] = ()
    """Patterns of the mask families."""
    label: tuple[str, int] | None = None
    """Part of where the best label candidate is, and its classes."""
    patient: tuple[str, int] | None = None
    split: tuple[str, ...] | None = None
    """Values of the best split candidate."""
    text: str | None = None
    kind: str | None = None
    """Of the masks."""


def _channels_and_test(root: Path) -> None:
    for number in range(1, 9):
        for channel in range(2):
            volume(root / f"imagesTr/liver_{number:03d}_{channel:04d}.nii.gz", number * 10 + channel)
        mask_volume(root / f"labelsTr/liver_{number:03d}.nii.gz", (1, 2))
    for number in range(21, 24):
        for channel in range(2):
            volume(root / f"imagesTs/liver_{number:03d}_{channel:04d}.nii.gz", number * 10 + channel)


def _participants(root: Path) -> None:
    rows: list[object] = [("participant_id", "group", "sex", "age")]
    for number in range(1, 13):
        for name in ("T1w", "T2w"):
            volume(root / f"sub-{number:02d}/anat/sub-{number:02d}_{name}.nii.gz", number * 3 + len(rows) % 2)
        rows.append((f"sub-{number:02d}", ("control", "patient")[number % 2], "FM"[number % 3 == 0], 40 + number))
    table(root / "participants.tsv", *rows, separator="\t")


def _series_by_date(root: Path) -> None:
    rows: list[object] = [("PatientID", "Diagnosis")]
    for number in range(1, 9):
        for date in ("2019-03-04", "2020-01-30")[: 1 + number % 2]:
            series(root / f"P{number:03d}/{date}", f"P{number:03d}", number)
        rows.append((f"P{number:03d}", ("benign", "malignant")[number % 2]))
    table(root / "findings.csv", *rows)


def _flat_series(root: Path) -> None:
    for number in range(5):
        series(root / "dicom", f"A{number}", number, name=f"{'abcde'[number]}{{:04d}}.dcm")


def _classes_of_mixed_names(root: Path) -> None:
    for number in range(12):
        picture(root / f"covid/patient{number // 2} ({number}).png", number)
        picture(root / f"covid/IM-{number:04d}-0001.png", 100 + number)
        picture(root / f"normal/IM-{number:04d}-0001.png", 200 + number)


def _split_and_classes(root: Path) -> None:
    for side, count in (("train", 14), ("val", 4), ("test", 6)):
        for number in range(count):
            seed = number + 100 * len(side)
            picture(root / f"xray/{side}/NORMAL/IM-{number + 115:04d}-0001.jpeg", seed)
            kind = ("bacteria", "virus")[number % 2]
            picture(root / f"xray/{side}/PNEUMONIA/person{number + 1}_{kind}_{number * 7}.jpeg", seed + 50)


def _image_and_mask_in_a_folder(root: Path) -> None:
    for number in range(1, 10):
        volume(root / f"case_{number}_img.nii.gz", number)
        mask_volume(root / f"case_{number}_seg.nii.gz")


def _sequences(root: Path) -> None:
    for number in range(1, 8):
        name = f"BraTS_{number:03d}"
        for sequence, seed in (("flair", 1), ("t1", 2), ("t1ce", 3), ("t2", 4)):
            volume(root / f"{name}/{name}_{sequence}.nii.gz", number * 10 + seed)
        mask_volume(root / f"{name}/{name}_seg.nii.gz", (1, 2, 4))


def _file_a_structure(root: Path) -> None:
    for number in range(1, 9):
        volume(root / f"ct/{number:04d}.nii.gz", number, hu=True)
        for structure in ("liver", "spleen"):
            mask_volume(root / f"{structure}/{number:04d}.nii.gz")


def _stacks(root: Path) -> None:
    for number in range(8):
        slices(
            root / f"{('covid', 'normal')[number % 2]}/case{number + 1}/scan_{number % 3}", number, 9, "slice_{}.png"
        )


def _hex_names_and_runs(root: Path) -> None:
    random = np.random.default_rng(3)
    rows: list[object] = [("ImageId", "EncodedPixels")]
    for number in range(80):
        name = random.bytes(8).hex()
        picture(root / f"train/{name}.png", number)
        rows.append((name, "" if number % 4 == 0 else f"{12 + number} 3 {40 + number} 5"))
    table(root / "train-rle.csv", *rows)


def _coco(root: Path) -> None:
    images, marks = [], []
    for number in range(10):
        picture(root / f"pictures/{number:06d}.jpg", number)
        images.append({"id": number, "file_name": f"{number:06d}.jpg", "width": 24, "height": 20})
        marks.append(
            {"id": number, "image_id": number, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}
        )
    held = {"images": images, "annotations": marks, "categories": [{"id": 1, "name": "polyp"}]}
    (root / "annotations.json").write_text(json.dumps(held))


def _arrays(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for number in range(8):
        held = np.zeros((12, 16, 16), np.uint8)
        held[3:8, 4:9, 4:9] = 1 + number % 2
        image = np.random.default_rng(number).integers(-900, 900, (12, 16, 16)).astype(np.int16)
        np.savez(root / f"case{number:02d}.npz", image=image, label=held)


def _entries(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    held = {}
    for side, count in (("train", 40), ("val", 10), ("test", 12)):
        held[f"{side}_images"] = random.integers(0, 255, (count, 28, 28), dtype=np.uint8)
        held[f"{side}_labels"] = np.arange(count).reshape(-1, 1) % 2
    np.savez(root / "films.npz", **held)


def _label_in_file(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for number in range(12):
        image = np.random.default_rng(number).integers(-900, 900, (9, 16, 16)).astype(np.int16)
        np.savez(root / f"scan{number:02d}.npz", image=image, label=number % 3, subject=f"S{number // 2}")


def _paths_and_flags(root: Path) -> None:
    rows: list[object] = [("Path", "Sex", "Age", "View", "Cardiomegaly", "Edema", "Pleural Effusion")]
    for number in range(24):
        path = f"train/patient{number // 2 + 1:05d}/study{number % 2 + 1}/view1_frontal.jpg"
        picture(root / path, number)
        flags = [
            "1.0" if (number + place) % (3 + place) == 0 else ("", "0.0", "-1.0")[number % 3] for place in range(3)
        ]
        rows.append((f"Data-v1/{path}", "FM"[number % 2], 40 + number, "Frontal", *flags))
    table(root / "train.csv", *rows)


def _reports_in_files(root: Path) -> None:
    for number in range(1, 13):
        picture(root / f"films/CXR{number}_1_IM-{number * 7:04d}.png", number)
        (root / "reports").mkdir(exist_ok=True)
        (root / f"reports/{number}.txt").write_text(
            f"FINDINGS: {sentence(number)}\nIMPRESSION: {sentence(number + 1)}\n"
        )


def _lists_of_findings(root: Path) -> None:
    rows: list[object] = [("Image Index", "Finding Labels", "Patient ID", "Patient Age")]
    kinds = ("No Finding", "Effusion|Mass", "Mass", "Effusion", "Nodule|Mass")
    for number in range(30):
        picture(root / f"images_{1 + number // 15:03d}/{number // 2:08d}_{number % 2:03d}.png", number)
        rows.append((f"{number // 2:08d}_{number % 2:03d}.png", kinds[number % 5], number // 2, 30 + number))
    table(root / "entries.csv", *rows)


def _jpeg_and_png(root: Path) -> None:
    for number in range(14):
        picture(root / f"images/{number:03d}.jpg", number, colour=True)
        mask_picture(root / f"masks/{number:03d}_mask.png", (1, 2))


def _patches(root: Path) -> None:
    for patient in (10253, 10254, 10255, 10257, 10260, 10261):
        for number in range(8):
            kind = number % 2
            name = f"{patient}_idx5_x{100 + 50 * number}_y{51 * number}_class{kind}.png"
            picture(root / f"{patient}/{kind}/{name}", patient + number, colour=True)


def _split_in_names(root: Path) -> None:
    rows: list[object] = [("scan", "patient", "findings", "impression")]
    for side, count in (("train", 12), ("valid", 4)):
        rows = rows[:1]
        for number in range(count):
            name = f"{side}_{number + 1}_a_1.nii.gz"
            volume(root / f"{side}/{side}_{number + 1}/{side}_{number + 1}_a/{name}", number + 50 * len(side), hu=True)
            text = sentence(number)
            rows.append((name, f"{side}{number}", text, sentence(number + 3)))
        table(root / f"tables/{side}_reports.csv", *rows)


def _slices_and_masks(root: Path) -> None:
    for number in range(5):
        slices(root / f"images/case{number:02d}", number, 8)
        for place in range(8):
            mask_picture(root / f"masks/case{number:02d}/{place:04d}.png", size=(24, 24))


def _snapshots(root: Path) -> None:
    for number in range(8):
        volume(root / f"rawdata/sub-v{number:03d}/sub-v{number:03d}_ct.nii.gz", number, hu=True)
        mask_volume(root / f"derivatives/sub-v{number:03d}/sub-v{number:03d}_seg-vert_msk.nii.gz", (18, 19, 20))
        picture(root / f"derivatives/sub-v{number:03d}/sub-v{number:03d}_seg-vert_snp.png", number)


LAYOUTS: dict[str, Layout] = {
    "channels_and_test": Layout(
        _channels_and_test, {"3": 22}, {"organ_segmentation": 16 / 22, "anomaly_detection": 16 / 22},
        ("images{part1}/liver_{part2}_{part3}.nii.gz",), ("labelsTr/liver_{part1}.nii.gz",), split=("Tr", "Ts"),
    ),
    "participants": Layout(
        _participants, {"3": 24}, {"diagnosis": 1.0},
        ("sub-{part1}/anat/sub-{part1}_T1w.nii.gz", "sub-{part1}/anat/sub-{part1}_T2w.nii.gz"),
        label=("column group", 2), patient=("participant_id", 12),
    ),
    "series_by_date": Layout(
        _series_by_date, {"3": 12}, {"diagnosis": 1.0}, label=("column Diagnosis", 2), patient=("PatientID", 8),
    ),
    "flat_series": Layout(_flat_series, {"3": 25}, patient=("PatientID", 5)),
    "classes_of_mixed_names": Layout(_classes_of_mixed_names, {"2": 36}, {"diagnosis": 1.0}, label=("folder 1", 2)),
    "split_and_classes": Layout(
        _split_and_classes, {"2": 48}, {"diagnosis": 1.0}, label=("folder 3", 2), split=("train", "test", "val"),
    ),
    "image_and_mask_in_a_folder": Layout(
        _image_and_mask_in_a_folder, {"3": 9}, MASKS, ("case_{part1}_img.nii.gz",), ("case_{part1}_seg.nii.gz",),
        patient=("case_{part1}", 9),
    ),
    "sequences": Layout(
        _sequences, {"3": 28}, MASKS,
        tuple(f"BraTS_{{part1}}/BraTS_{{part1}}_{name}.nii.gz" for name in ("flair", "t1ce", "t1", "t2")),
        ("BraTS_{part1}/BraTS_{part1}_seg.nii.gz",), patient=("folder 1", 7),
    ),
    "file_a_structure": Layout(
        _file_a_structure, {"3": 8}, MASKS, ("ct/{part1}.nii.gz",), ("{part1}/{part2}.nii.gz",),
    ),
    "stacks": Layout(_stacks, {"3": 8}, {"diagnosis": 1.0}, label=("folder 1", 2), patient=("folder 2", 8)),
    "hex_names_and_runs": Layout(
        _hex_names_and_runs, {"2": 80}, {"organ_segmentation": 0.75, "anomaly_detection": 0.75}, ("train/{part1}.png",),
        kind="rle",
    ),
    "coco": Layout(_coco, {"2": 10}, MASKS, ("pictures/{part1}.jpg",), kind="coco"),
    "arrays": Layout(_arrays, {"3": 8}, MASKS, ("case{part1}.npz",), kind="array"),
    "entries": Layout(_entries, {"2": 62}, {"diagnosis": 1.0}, label=("array labels", 2),
                      split=("train_images", "val_images", "test_images")),
    "label_in_file": Layout(_label_in_file, {"3": 12}, {"diagnosis": 1.0}, label=("array label", 3),
                            patient=("array subject", 6)),
    "paths_and_flags": Layout(
        _paths_and_flags, {"2": 24}, {"diagnosis": 1.0}, label=("columns Cardiomegaly", 3), patient=("folder 2", 12),
    ),
    "reports_in_files": Layout(
        _reports_in_files, {"2": 12}, {"report_generation": 1.0}, text="reports/{part1}.txt",
    ),
    "lists_of_findings": Layout(
        _lists_of_findings, {"2": 30}, {"diagnosis": 1.0}, label=("column Finding Labels", 4),
        patient=("column Patient ID", 15),
    ),
    "jpeg_and_png": Layout(_jpeg_and_png, {"2": 14}, MASKS, ("images/{part1}.jpg",), ("masks/{part1}_mask.png",)),
    "patches": Layout(_patches, {"2": 48}, {"diagnosis": 1.0}, label=("", 2), patient=("folder 1", 6)),
    "split_in_names": Layout(
        _split_in_names, {"3": 16}, {"report_generation": 1.0}, split=("train", "valid"),
        patient=("column patient", 16), text="column findings",
    ),
    "slices_and_masks": Layout(
        _slices_and_masks, {"3": 5}, MASKS, ("images/case{part1}/{part2}.png",), ("masks/case{part1}/{part2}.png",),
        patient=("folder 2", 5),
    ),
    "snapshots": Layout(_snapshots, {"3": 8}, MASKS, ("rawdata/sub-v{part1}/sub-v{part1}_ct.nii.gz",),
                        ("derivatives/sub-v{part1}/sub-v{part1}_seg-vert_msk.nii.gz",)),
}  # fmt: skip
