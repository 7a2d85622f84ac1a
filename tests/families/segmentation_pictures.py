"""Segmentation of pictures whose masks are pictures too."""

import numpy as np
from PIL import Image

from .base import Build, family
from .pictures import chest_film, endoscopy, fundus, histology, ultrasound


@family(
    "images_masks",
    "anomaly_detection",
    2,
    "polyp segmentation in colonoscopy frames",
    patients_known=False,
    notes="images/ and masks/ with equal names, masks 0/255; sizes differ; a mask without image; a preview",
)
def images_masks(b: Build) -> None:
    for i in range(36):
        image, mask = endoscopy(b.rng, True, b.pick((64, 80), (72, 72), (56, 88)))
        name = f"cju{b.rng.bytes(5).hex()}{i:02d}.png"
        b.picture(f"masks/{name}", mask.astype(np.uint8) * 255)
        b.case(b.picture(f"images/{name}", image), mask={"polyp": mask}, channels=3)
    b.picture("masks/cju0000000000xx.png", mask.astype(np.uint8) * 255)
    b.clutter("mac", "preview", "macosx")


@family(
    "masks_jpeg",
    "anomaly_detection",
    2,
    "segment polyps (kvasir style)",
    patients_known=False,
    mask_tolerance=0.06,
    notes="masks are RGB JPEGs, so values scatter around 0 and 255; the threshold lies in the middle",
)
def masks_jpeg(b: Build) -> None:
    for i in range(34):
        image, mask = endoscopy(b.rng)
        name = f"k{i:04d}.jpg"
        b.picture(f"Kvasir/masks/{name}", np.repeat(mask[..., None], 3, -1).astype(np.uint8) * 255, quality=75)
        b.case(b.picture(f"Kvasir/images/{name}", image, quality=92), mask={"polyp": mask}, channels=3)
    b.json("Kvasir/kavsir_bboxes.json", {"k0000": {"height": 64, "width": 80, "bbox": []}})


@family(
    "palette_masks",
    "organ_segmentation",
    2,
    "optic disc + haemorrhages on fundus images, VOC-like folders",
    notes="palette PNG whose index is the class of legend.csv; 255 is a border to ignore; ImageSets hold the splits",
    patients_known=False,
    mask_tolerance=0.0,
)
def palette_masks(b: Build) -> None:
    sets: dict[str, list[str]] = {"train": [], "val": []}
    colours = {"background": (0, 0, 0), "optic disc": (128, 0, 0), "haemorrhage": (0, 128, 0)}
    for i in range(32):
        image, masks = fundus(b.rng, 1 + i % 3)
        name, split = f"2019_{i:06d}", "val" if i % 4 == 0 else "train"
        values = np.where(masks["optic disc"], 1, np.where(masks["haemorrhage"], 2, 0)).astype(np.uint8)
        values[0, :] = 255
        out = Image.fromarray(values, mode="P")
        out.putpalette([c for rgb in colours.values() for c in rgb] + [0] * (768 - 9 - 3) + [224, 224, 192])
        out.save(b.at(f"SegmentationClass/{name}.png"))
        b.case(b.picture(f"JPEGImages/{name}.jpg", image, quality=92), mask=masks, channels=3, split=split)
        sets[split].append(name)
    for split, names in sets.items():
        b.text(f"ImageSets/Segmentation/{split}.txt", "\n".join(names) + "\n")
    b.csv("legend.csv", ("index", "name", "r", "g", "b"), [(n, k, *c) for n, (k, c) in enumerate(colours.items())])


@family(
    "rgb_masks",
    "organ_segmentation",
    2,
    "Lung fields left and right on x-ray, masks are coloured",
    notes="RGB masks whose colours stand in class_dict.csv; name_L.png is the mask of name.png",
    patients_known=False,
)
def rgb_masks(b: Build) -> None:
    table = {"background": (0, 0, 0), "left lung": (255, 0, 0), "right lung": (0, 0, 255)}
    for i in range(32):
        image, masks = chest_film(b.rng)
        out = np.zeros((*image.shape, 3), np.uint8)
        for name in ("left lung", "right lung"):
            out[masks[name]] = table[name]
        b.picture(f"train_labels/X{i:04d}_L.png", out)
        b.case(b.picture(f"train/X{i:04d}.png", image), mask=masks)
    b.csv("class_dict.csv", ("name", "r", "g", "b"), [(k, *c) for k, c in table.items()])


@family(
    "dark_label_pngs",
    "organ_segmentation",
    2,
    "segment optic disc (1) and vessels lesions (2); masks look black but they are not",
    notes="mask PNGs hold 0, 1, 2 and look black; names differ by a suffix (_mask.png against .jpg); legend in README",
)
def dark_label_pngs(b: Build) -> None:
    for i in range(1, 31):
        image, masks = fundus(b.rng, 2, (64, 80))
        name = f"pt{(i + 1) // 2:02d}_{'OD' if i % 2 else 'OS'}"
        values = np.where(masks["optic disc"], 1, np.where(masks["haemorrhage"], 2, 0)).astype(np.uint8)
        b.picture(f"gt/{name}_mask.png", values)
        path = b.picture(f"img/{name}.jpg", image, quality=92)
        b.case(path, patient=f"pt{(i + 1) // 2:02d}", mask=masks, channels=3)
    b.text("README.txt", "pixel values: 0 background, 1 optic disc, 2 haemorrhage\nOD right eye, OS left eye\n")


@family(
    "mask_folder_per_side",
    "organ_segmentation",
    2,
    "lung segmentation cxr, left & right, montgomery like",
    notes="ManualMask/leftMask and rightMask are two structures, not two readers; "
    "a clinical text a film is no report to write",
)
def mask_folder_per_side(b: Build) -> None:
    for i in range(1, 31):
        sick = i % 2
        image, masks = chest_film(b.rng, *(["pneumonia"] if sick else []))
        name = f"MCUCXR_{i:04d}_{sick}.png"
        for side in ("left", "right"):
            b.picture(f"ManualMask/{side}Mask/{name}", masks[f"{side} lung"].astype(np.uint8) * 255)
        b.text(
            f"ClinicalReadings/{name[:-4]}.txt",
            f"Patient's Sex: F\nPatient's Age: {30 + i}Y\n{'TB' if sick else 'normal'}\n",
        )
        parts = {k: masks[k] for k in ("left lung", "right lung")}
        b.case(b.picture(f"CXR_png/{name}", image), patient=name[:-6], mask=parts)
    b.clutter("windows", under="CXR_png")


@family(
    "mask_per_instance",
    "organ_segmentation",
    2,
    "nuclei segmentation in histology (data science bowl layout)",
    notes="a folder a picture with images/ and many masks/, one a nucleus; the structure is their union",
    patients_known=False,
)
def mask_per_instance(b: Build) -> None:
    for i in range(24):
        image, nuclei = histology(b.rng, i % 2 == 0, (56, 56))
        name = b.rng.bytes(16).hex()
        for one in nuclei:
            b.picture(f"stage1_train/{name}/masks/{b.rng.bytes(16).hex()}.png", one.astype(np.uint8) * 255)
        path = b.picture(f"stage1_train/{name}/images/{name}.png", image)
        b.case(path, mask={"nuclei": np.any(nuclei, axis=0)}, channels=3)


def breast(b: Build, labels: bool) -> None:
    """Class folders with `benign (3).png`, `benign (3)_mask.png` and now and then a second mask."""
    for kind in ("benign", "malignant", "normal"):
        for i in range(1, 15):
            image, mask = ultrasound(b.rng, kind)
            stem = f"Dataset_BUSI_with_GT/{kind}/{kind} ({i})"
            path = b.picture(f"{stem}.png", image)
            half = np.zeros_like(mask)
            if i % 6 == 0 and kind != "normal":
                half[:, : int(np.nonzero(mask.any(axis=0))[0].mean())] = True
                b.picture(f"{stem}_mask_1.png", (mask & half).astype(np.uint8) * 255)
            b.picture(f"{stem}_mask.png", (mask & ~half).astype(np.uint8) * 255)
            b.case(path, label=kind if labels else None, mask=None if labels else {"lesion": mask})


@family(
    "breast_masks",
    "anomaly_detection",
    2,
    "localise breast lesions in ultrasound (masks are there)",
    patients_known=False,
    notes="`benign (3)_mask.png`, sometimes a `_mask_1.png` more: the union counts; normal pictures have empty masks",
)
def breast_masks(b: Build) -> None:
    breast(b, labels=False)


@family(
    "breast_classes",
    "diagnosis",
    2,
    "breast ultrasound: benign vs malignant vs normal, please ignore the segmentations",
    patients_known=False,
    notes="the same layout as breast_masks: files with _mask are no images and would give the class away",
)
def breast_classes(b: Build) -> None:
    breast(b, labels=True)


@family(
    "good_and_defect",
    "anomaly_detection",
    2,
    "anomaly detection colon: train has only healthy ones (mvtec layout)",
    patients_known=False,
    notes="train/good only; test/good and test/polyp; masks of test/polyp in ground_truth with _mask; names repeat",
)
def good_and_defect(b: Build) -> None:
    for split, folder, n in (("train", "good", 24), ("test", "good", 8), ("test", "polyp", 14)):
        for i in range(n):
            image, mask = endoscopy(b.rng, folder != "good")
            if folder != "good":
                b.picture(f"colon/ground_truth/polyp/{i:03d}_mask.png", mask.astype(np.uint8) * 255)
            path = b.picture(f"colon/{split}/{folder}/{i:03d}.png", image)
            b.case(path, mask={"polyp": mask}, channels=3, split=split)
