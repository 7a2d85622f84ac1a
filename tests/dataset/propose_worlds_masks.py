"""Worlds of segmentation whose masks are label images: where they lie beside their images."""

from pathlib import Path

import numpy as np
from propose_files import RANDOM, mask_picture, mask_volume, palette_picture, picture, save_json, table, volume
from propose_worlds import World


def nnunet(root: Path) -> None:
    for number in range(1, 9):
        for channel in range(2):
            volume(root / "imagesTr" / f"PROSTATE_{number:03d}_{channel:04d}.nii.gz")
        mask_volume(root / "labelsTr" / f"PROSTATE_{number:03d}.nii.gz", (1, 2))
    for number in range(30, 33):
        for channel in range(2):
            volume(root / "imagesTs" / f"PROSTATE_{number:03d}_{channel:04d}.nii.gz")
    save_json(
        root / "dataset.json",
        {
            "channel_names": {"0": "T2", "1": "ADC"},
            "labels": {"background": 0, "peripheral zone": 1, "transition zone": 2},
            "numTraining": 8,
            "file_ending": ".nii.gz",
        },
    )


def decathlon(root: Path) -> None:
    pairs = []
    for number in (1, 2, 5, 7, 11, 12, 30, 41):
        volume(root / "imagesTr" / f"spleen_{number}.nii.gz")
        mask_volume(root / "labelsTr" / f"spleen_{number}.nii.gz")
        pairs.append({"image": f"./imagesTr/spleen_{number}.nii.gz", "label": f"./labelsTr/spleen_{number}.nii.gz"})
    for number in (3, 4):
        volume(root / "imagesTs" / f"spleen_{number}.nii.gz")
    save_json(
        root / "dataset.json",
        {
            "name": "Spleen",
            "modality": {"0": "CT"},
            "labels": {"0": "background", "1": "spleen"},
            "training": pairs,
            "test": ["./imagesTs/spleen_3.nii.gz", "./imagesTs/spleen_4.nii.gz"],
        },
    )


def decathlon_channels(root: Path) -> None:
    for number in range(8):
        volume(root / "imagesTr" / f"BRATS_{number:03d}.nii.gz", (8, 7, 6, 4))
        mask_volume(root / "labelsTr" / f"BRATS_{number:03d}.nii.gz", (1, 2, 3))
    names = ("FLAIR", "T1w", "t1gd", "T2w")
    save_json(
        root / "dataset.json",
        {
            "modality": {str(number): name for number, name in enumerate(names)},
            "labels": {"0": "background", "1": "edema", "2": "non-enhancing tumor", "3": "enhancing tumour"},
        },
    )


def derivatives(root: Path) -> None:
    for number in range(1, 11):
        name = f"sub-{number:02d}"
        for session in ("ses-1", "ses-2")[: 1 + number % 2]:
            stem = f"{name}_{session}"
            volume(root / name / session / "anat" / f"{stem}_FLAIR.nii.gz")
            mask_volume(root / "derivatives" / "labels" / name / session / "anat" / f"{stem}_label-lesion_mask.nii.gz")


def same_names(root: Path) -> None:
    for number in range(14):
        picture(root / "CXR_png" / f"CHNCXR_{number:04d}_{number % 2}.png")
        mask_picture(root / "masks" / f"CHNCXR_{number:04d}_{number % 2}.png")


def same_names_split(root: Path) -> None:
    for side, many in (("train", 12), ("test", 4)):
        for number in range(many):
            picture(root / side / "images" / f"{side}{number}.jpg")
            mask_picture(root / side / "masks" / f"{side}{number}.png")


def suffix_pairs(root: Path) -> None:
    for kind in ("benign", "malignant"):
        for number in range(1, 9):
            picture(root / kind / f"{kind} ({number}).png")
            mask_picture(root / kind / f"{kind} ({number})_mask.png")


def sequences(root: Path) -> None:
    for number in range(1, 9):
        name = f"BraTS20_Training_{number:03d}"
        for sequence in ("t1", "t1ce", "t2", "flair"):
            volume(root / name / f"{name}_{sequence}.nii.gz")
        mask_volume(root / name / f"{name}_seg.nii.gz", (1, 2, 4))


def structure_files(root: Path) -> None:
    for number in range(7):
        folder = root / f"s{number:04d}"
        volume(folder / "ct.nii.gz")
        for structure in ("aorta", "liver", "spleen", "kidney_left", "kidney_right"):
            mask_volume(folder / "segmentations" / f"{structure}.nii.gz")


def legend(root: Path) -> None:
    colors = {"background": (0, 0, 0), "polyp": (200, 0, 0), "instrument": (0, 200, 0)}
    for number in range(10):
        picture(root / "frames" / f"frame_{number:03d}.png")
        palette_picture(root / "annotation" / f"frame_{number:03d}.png", [*colors.values()][1:])
    table(root / "class_dict.csv", [{"name": name} | dict(zip("rgb", c, strict=True)) for name, c in colors.items()])


def arrays(root: Path) -> None:
    (root / "train_npz").mkdir(parents=True)
    for case in range(5):
        for number in range(4):
            label = np.zeros((12, 12), np.uint8)
            label[2:5, 2:5] = 1 + case % 2
            image = RANDOM.random((12, 12)).astype(np.float32)
            np.savez(root / "train_npz" / f"case{case:04d}_slice{number:03d}.npz", image=image, label=label)


def two_raters(root: Path) -> None:
    for number in range(10):
        picture(root / "images" / f"{number}.png")
        mask_picture(root / "expert1" / f"{number}.png")
        mask_picture(root / "expert2" / f"{number}.png")


def two_structures(root: Path) -> None:
    for number in range(10):
        picture(root / "images" / f"{number}.png")
        mask_picture(root / "left lung" / f"{number}.png")
        mask_picture(root / "right lung" / f"{number}.png")


def legend_of_values(root: Path) -> None:
    for number in range(8):
        volume(root / "scans" / f"img{number:04d}.nii.gz")
        mask_volume(root / "scans_labels" / f"label{number:04d}.nii.gz", (1, 3, 7))
    save_json(root / "labels.json", {"1": "spleen", "3": "left kidney", "7": "stomach"})


def _scans(root: Path, names: list[str]) -> None:
    for name in names:
        volume(root / "images" / f"{name}.nii.gz")
        mask_volume(root / "masks" / f"{name}.nii.gz", (1, 2))


def few_with_two_series(root: Path) -> None:
    """`sub-verse007_split-verse252`, `sub-verse007_split-verse253` are one person, the others one each."""
    _scans(
        root, [f"sub-{name}" for name in ("gl003_dir-ax", "gl011_dir-ax", "verse004", "verse009", "verse521_dir-ax")]
    )
    _scans(root, [f"sub-verse007_split-verse{number}" for number in (252, 253)])


def few_with_two_numbers(root: Path) -> None:
    """`radio_10_85902_1`, `radio_10_85902_3` are one person; `corona_001`, ... count in another way."""
    _scans(root, [f"corona_{number:03d}" for number in range(1, 8)])
    _scans(root, [f"radio_{name}" for name in ("10_85902_1", "10_85902_3", "14_85914_0", "27_86410_0", "4_85506_1")])


def slices_and_masks(root: Path) -> None:
    for patient in range(6):
        for number in range(5):
            picture(root / f"patient{patient:02d}" / "images" / f"{number}.png")
            mask_picture(root / f"patient{patient:02d}" / "masks" / f"{number}.png")


def visits(root: Path) -> None:
    for patient in range(1, 8):
        for visit in range(1, 3):
            volume(root / f"P{patient:02d}" / f"P{patient:02d}_T{visit}.nii.gz")
            mask_volume(root / f"P{patient:02d}" / f"P{patient:02d}_T{visit}_mask.nii.gz")


def numbered_drawings(root: Path) -> None:
    """Drawings under numbers of their own, in two styles, and a list of which number is whose code."""
    rows = []
    codes = ["PM17", "PM17_2", "AT18", "KA90", "NB34", "WK36", "TW37", "LE32", "DN24"]
    for place, code in enumerate(codes):
        number = 4 + 7 * place % 61
        volume(root / f"CT_{2018 + place % 3}" / f"{code}_{('PV_3mm', 'pv')[place % 2]}.nii.gz")
        mask_volume(root / "drawn" / "final" / (f"{number}.nii.gz" if place % 2 else f"roi{number:03d}_LK.nii.gz"))
        rows.append({"Code": code, "Drawing": number, "Thickness": "3,0"})
    mask_volume(root / "drawn" / "old" / "11.nii.gz")
    table(root / "list.csv", rows)


def numbered_drawings_of_files(root: Path) -> None:
    """A list that names the image's file and the number of its drawing."""
    rows = []
    for place in range(12):
        picture(root / "photos" / f"IMG_{2000 + 37 * place}.png")
        mask_picture(root / "drawn" / f"outline-{place + 1:04d}.png")
        name = f"IMG_{2000 + 37 * place}.png"
        rows.append({"file": name, "patient": f"P{place // 2:02d}", "outline": place + 1})
    table(root / "list.csv", rows)


def outlines_with_a_letter(root: Path) -> None:
    """Masks `7R_les_AB` of scans `S007`, none where a table counts no lesion, some not drawn yet."""
    rows = []
    for number in range(3, 19):
        volume(root / "scans" / f"S{number:03d}.nii.gz", (12, 12, 10))
        count = 0 if number % 4 == 0 else 1 + number % 3
        rows.append({"no": number, "lesions": count, "remarks": "not drawn yet" if number == 9 else ""})
        if count and number != 9:
            mask_volume(root / "rois" / f"{number}{'LR'[number % 2]}_les_{('AB', 'CD')[number // 10]}.nii.gz",
                        shape=(12, 12, 10))  # fmt: skip
    table(root / "overview.csv", rows)


WORLDS = {
    "outlines with a letter behind their number": World(
        outlines_with_a_letter, "anomaly_detection", 15, 15, {"target": "lesions"}, counts={"les": 11}, dimensions=3
    ),
    "drawings under numbers of a list": World(
        numbered_drawings,
        "anomaly_detection",
        9,
        8,
        dimensions=3,
        rules={
            "masks": [
                {
                    "files": ["drawn/final/{mask_number}.nii.gz", "drawn/final/roi{mask_number}_LK.nii.gz"],
                    "structure": "structure",
                    "table": "list",
                    "column": "Drawing",
                }
            ]
        },
    ),
    "drawings under numbers of a list of files": World(
        numbered_drawings_of_files, "anomaly_detection", 12, 6, dimensions=2
    ),
    "nnU-Net": World(
        nnunet,
        "organ_segmentation",
        8,
        8,
        names=("peripheral zone", "transition zone"),
        channels=("T2", "ADC"),
        dimensions=3,
    ),
    "decathlon": World(decathlon, "organ_segmentation", 8, 8, names=("spleen",), dimensions=3),
    "decathlon in 4D": World(
        decathlon_channels,
        "anomaly_detection",
        8,
        8,
        names=("edema", "enhancing tumour", "non-enhancing tumor"),
        channels=("FLAIR", "T1w", "t1gd", "T2w"),
        dimensions=3,
    ),
    "BIDS derivatives": World(derivatives, "anomaly_detection", 15, 10, dimensions=3),
    "two folders of the same names": World(same_names, "organ_segmentation", 14, 14, dimensions=2),
    "the same names below a split": World(
        same_names_split, "anomaly_detection", 16, 16, splits={"train": 12, "test": 4}, dimensions=2
    ),
    "suffix pairs": World(suffix_pairs, "anomaly_detection", 16, 16, dimensions=2),
    "sequences as channels": World(
        sequences, "anomaly_detection", 8, 8, channels=("flair", "t1", "t1ce", "t2"), dimensions=3
    ),
    "a file a structure": World(
        structure_files,
        "organ_segmentation",
        7,
        7,
        names=("aorta", "kidney_left", "kidney_right", "liver", "spleen"),
        dimensions=3,
    ),
    "a file a structure, two asked for": World(
        structure_files, "organ_segmentation", 7, 7, {"only": ("left kidney", "liver")}, names=("kidney_left", "liver")
    ),
    "few with two series": World(few_with_two_series, "organ_segmentation", 7, 6),
    "few with two numbers": World(few_with_two_numbers, "organ_segmentation", 12, 11),
    "palette with a legend": World(legend, "anomaly_detection", 10, 10, names=("instrument", "polyp")),
    "arrays": World(arrays, "organ_segmentation", 20, 5),
    "two raters": World(two_raters, "anomaly_detection", 10, 10, key="mask", choices=2),
    "a folder a structure": World(two_structures, "organ_segmentation", 10, 10, names=("left lung", "right lung")),
    "names in a small JSON": World(
        legend_of_values, "organ_segmentation", 8, 8, names=("left kidney", "spleen", "stomach"), dimensions=3
    ),
    "slices and their masks": World(slices_and_masks, "organ_segmentation", 30, 6, {"dimensions": 2}, dimensions=2),
    "visits": World(visits, "anomaly_detection", 14, 7, dimensions=3),
}
