"""Segmentation where tables, JSON or XML draw the mask."""

from collections.abc import Mapping

import numpy as np
from skimage.measure import find_contours

from .base import Build, family
from .dicom import film
from .pictures import chest_film, endoscopy, fundus, ultrasound


def outline(mask: np.ndarray) -> list[list[tuple[float, float]]]:
    """The mask's borders as (x, y) points; pixel (0, 0) reaches from 0 to 1."""
    lines = find_contours(np.pad(mask.astype(float), 1), 0.5)
    return [[(round(float(x) - 0.5, 2), round(float(y) - 0.5, 2)) for y, x in line[:-1]] for line in lines]


def box(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a mask; right and bottom are the first pixels outside."""
    rows, cols = np.nonzero(mask)
    return int(cols.min()), int(rows.min()), int(cols.max()) + 1, int(rows.max()) + 1


def filled(shape: tuple[int, ...], *boxes: tuple[int, int, int, int]) -> np.ndarray:
    out = np.zeros(shape[:2], bool)
    for left, top, right, bottom in boxes:
        out[top:bottom, left:right] = True
    return out


def runs(mask: np.ndarray) -> str:
    """Run lengths down the columns, counted from 1."""
    flat = np.pad(mask.T.ravel().astype(np.int8), 1)
    edges = np.flatnonzero(np.diff(flat)) + 1
    return " ".join(f"{a} {e - a}" for a, e in zip(edges[::2], edges[1::2], strict=True))


@family(
    "rle_csv",
    "anomaly_detection",
    2,
    "pneumothorax segmentation, kaggle rle csv",
    patients_known=False,
    notes="runs down the columns, counted from 1, empty when healthy; a picture may have two rows; "
    "pictures are not square",
)
def rle_csv(b: Build) -> None:
    rows = []
    for i in range(40):
        sick = i % 3 != 0
        image, masks = chest_film(b.rng, *(["pneumothorax"] if sick else []), size=(60, 72))
        name = f"{b.rng.bytes(5).hex()}.png"
        mask = masks.get("pneumothorax", np.zeros(image.shape, bool))
        upper = np.zeros_like(mask)
        upper[: int(np.nonzero(mask)[0].mean()) if sick and i % 5 == 0 else 99] = True
        rows += [(name, runs(part)) for part in (mask & upper, mask & ~upper) if part.any()] or [(name, "")]
        b.case(b.picture(f"train_images/{name}", image), mask={"pneumothorax": mask})
    b.csv("train.csv", ("ImageId", "EncodedPixels"), rows)
    b.csv("sample_submission.csv", ("ImageId", "EncodedPixels"), [("0a1b2c3d4e.png", "1 1")])


@family(
    "coco_json",
    "anomaly_detection",
    2,
    "instance masks coco: polyp + instrument? we only need the polyps outlined",
    patients_known=False,
    mask_tolerance=0.05,
    notes="polygons in instances_train/val.json; category ids 3 and 7; ids of pictures are not in order; "
    "the empty ones count",
)
def coco_json(b: Build) -> None:
    number = 0
    for split, n in (("train", 26), ("val", 10)):
        images, marks = [], []
        for i in range(n):
            number += 1
            picture, mask = endoscopy(b.rng, i % 5 != 0)
            name = f"{number:012d}.jpg"
            b.picture(f"{split}2019/{name}", picture, quality=92)
            images.append({"id": 5000 - 7 * number, "file_name": name, "height": 64, "width": 80})
            if mask.any():
                left, top, right, bottom = box(mask)
                marks.append(
                    {
                        "id": number,
                        "image_id": 5000 - 7 * number,
                        "category_id": 7,
                        "iscrowd": 0,
                        "area": int(mask.sum()),
                        "bbox": [left, top, right - left, bottom - top],
                        "segmentation": [[v for point in line for v in point] for line in outline(mask)],
                    }
                )
            tool = {"instrument": 0}
            b.case(f"{split}2019/{name}", mask={"polyp": mask, **tool}, channels=3, split=split)
        b.rng.shuffle(images)
        kinds = [{"id": 3, "name": "instrument"}, {"id": 7, "name": "polyp"}]
        b.json(
            f"annotations/instances_{split}2019.json",
            {"images": images, "annotations": marks, "categories": kinds},
            None,
        )


@family(
    "yolo_boxes",
    "anomaly_detection",
    2,
    "detect breast lesions with boxes, yolo txts: benign=0 malignant=1",
    patients_known=False,
    mask_tolerance=0.05,
    notes="boxes only (centre and size as shares), names in data.yaml; "
    "the healthy have an empty or no txt; counts: box areas",
)
def yolo_boxes(b: Build) -> None:
    number = 0
    for split, n in (("train", 26), ("valid", 8), ("test", 8)):
        for i in range(n):
            number += 1
            kind = ("benign", "malignant", "normal")[i % 3]
            picture, mask = ultrasound(b.rng, kind)
            name = f"us_{number:03d}_jpg.rf.{b.rng.bytes(6).hex()}"
            path = b.picture(f"{split}/images/{name}.jpg", picture, quality=92)
            counts = {"benign": np.zeros_like(mask), "malignant": np.zeros_like(mask)}
            if kind != "normal":
                left, top, right, bottom = box(mask)
                counts[kind] = filled(mask.shape, (left, top, right, bottom))
                centre = ((left + right) / 160, (top + bottom) / 128)
                size = ((right - left) / 80, (bottom - top) / 64)
                code = int(kind == "malignant")
                b.text(f"{split}/labels/{name}.txt", f"{code} {' '.join(f'{v:.6f}' for v in centre + size)}\n")
            elif i % 2:
                b.text(f"{split}/labels/{name}.txt", "")
            b.case(path, mask=counts, split="val" if split == "valid" else split)
    b.text(
        "data.yaml",
        "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 2\nnames: ['benign', 'malignant']\n",
    )
    b.text("README.roboflow.txt", "Exported from a labelling site on March 4, 2019\n")


@family(
    "voc_xml",
    "anomaly_detection",
    2,
    "haemorrhage detection on fundus photographs, pascal voc annotations (boxes)",
    patients_known=False,
    notes="boxes in XML (1-based, both ends inside), many a picture; ImageSets/Main holds the splits; "
    "counts: union of boxes",
    mask_tolerance=0.02,
)
def voc_xml(b: Build) -> None:
    sets: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for i in range(32):
        picture, masks = fundus(b.rng, i % 3)
        name, split = f"{i:06d}", ("train", "train", "val", "test")[i % 4]
        spots = spot_boxes(masks["haemorrhage"])
        objects = "".join(
            f"<object><name>haemorrhage</name><difficult>0</difficult><bndbox><xmin>{x + 1}</xmin><ymin>{y + 1}</ymin>"
            f"<xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
            for x, y, right, bottom in spots
        )
        b.text(
            f"Annotations/{name}.xml",
            f"<annotation><folder>VOC</folder><filename>{name}.jpg</filename><path>C:\\canary\\{name}.jpg</path>"
            f"<size><width>72</width><height>72</height><depth>3</depth></size>{objects}</annotation>\n",
        )
        path = b.picture(f"JPEGImages/{name}.jpg", picture, quality=92)
        b.case(path, mask={"haemorrhage": filled(picture.shape, *spots)}, channels=3, split=split)
        sets[split].append(name)
    for split, names in sets.items():
        b.text(f"ImageSets/Main/{split}.txt", "\n".join(names) + "\n")


def spot_boxes(mask: np.ndarray) -> list[tuple[int, int, int, int]]:
    """A box for every connected spot."""
    from scipy.ndimage import find_objects, label

    return [(c.start, r.start, c.stop, r.stop) for r, c in find_objects(label(mask)[0])]


def labelme(b: Build, path: str, shape: tuple[int, ...], shapes: list[Mapping[str, object]], image: str) -> None:
    b.json(
        path,
        {
            "version": "5.0.1",
            "flags": {},
            "shapes": [{"group_id": None, "flags": {}, **s} for s in shapes],
            "imagePath": image,
            "imageData": None,
            "imageHeight": shape[0],
            "imageWidth": shape[1],
        },
    )


@family(
    "labelme_json",
    "organ_segmentation",
    2,
    "lung + heart contours drawn in labelme",
    mask_tolerance=0.06,
    notes="a JSON beside each PNG: polygons, a circle for the heart; `lung` twice a picture; "
    "two pictures are not annotated",
)
def labelme_json(b: Build) -> None:
    for i in range(1, 31):
        picture, masks = chest_film(b.rng, "cardiomegaly")
        patient = f"P{(i + 1) // 2:02d}"
        path = b.picture(f"xray/{patient}_{'ab'[i % 2]}.png", picture)
        if i in (8, 21):
            b.truth["left_out"].append({"file": path, "why": "not annotated"})
            continue
        lungs = masks["left lung"] | masks["right lung"]
        shapes: list[Mapping[str, object]] = [
            {"label": "lung", "points": line, "shape_type": "polygon"} for line in outline(lungs) if len(line) > 8
        ]
        rows, cols = np.nonzero(masks["cardiomegaly"])
        cy, cx, radius = rows.mean() + 0.5, cols.mean() + 0.5, 9.0
        shapes.append({"label": "heart", "points": [(cx, cy), (cx + radius, cy)], "shape_type": "circle"})
        y, x = np.mgrid[:64, :64] + 0.5
        heart = (y - cy) ** 2 + (x - cx) ** 2 <= radius**2
        labelme(b, path.replace(".png", ".json"), picture.shape, shapes, path.rpartition("/")[2])
        b.case(path, patient=patient, mask={"lung": lungs & ~heart, "heart": heart})


@family(
    "box_csv_dicom",
    "anomaly_detection",
    2,
    "RSNA pneumonia challenge data: show me where the opacity is",
    notes="DICOM films and a CSV with a row a box (x, y, width, height, Target); "
    "blank boxes when healthy; counts: union",
    mask_tolerance=0.05,
)
def box_csv_dicom(b: Build) -> None:
    rows, details = [], []
    for i in range(34):
        sick = i % 2
        picture, masks = chest_film(b.rng, *(["pneumonia"] if sick else []))
        patient = b.rng.bytes(16).hex()
        path = film(
            b,
            f"stage_2_train_images/{patient}.dcm",
            picture,
            patient,
            "CR",
            ViewPosition="AP",
            syntax=b.pick("explicit", "rle"),
        )
        boxes = []
        if sick:
            x, y, right, bottom = box(masks["pneumonia"])
            middle = (y + bottom) // 2
            boxes = [(x, y, right, middle), (x, middle - 2, right, bottom)] if i % 3 == 0 else [(x, y, right, bottom)]
        rows += [(patient, float(x), float(y), float(r - x), float(t - y), 1) for x, y, r, t in boxes]
        rows += [] if sick else [(patient, "", "", "", "", 0)]
        details.append((patient, "Lung Opacity" if sick else b.pick("Normal", "No Lung Opacity / Not Normal")))
        b.case(path, patient=patient, mask={"opacity": filled(picture.shape, *boxes)})
    b.csv("stage_2_train_labels.csv", ("patientId", "x", "y", "width", "height", "Target"), rows)
    b.csv("stage_2_detailed_class_info.csv", ("patientId", "class"), details)
