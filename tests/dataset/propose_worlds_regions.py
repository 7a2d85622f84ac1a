"""Worlds of segmentation whose masks are numbers in tables: boxes and polygons, one or several a row."""

from pathlib import Path

import pydicom
from propose_files import dicom_series, picture, save_json, table, text
from propose_worlds import World


def _film(path: Path, patient: str, rows: int = 40, columns: int = 48) -> pydicom.Dataset:
    """A DICOM film under a name of its own."""
    data = dicom_series(path.parent, patient, 1, prefix="new")[0]
    (path.parent / "new001.dcm").unlink()
    data.Modality, data.Rows, data.Columns, data.PixelData = "DX", rows, columns, bytes(rows * columns * 2)
    data.save_as(path, enforce_file_format=True)
    return data


def sizes_of_films(root: Path) -> None:
    """Corner, width and height; healthy films have a row of empty cells."""
    rows: list[dict[str, object]] = []
    for number in range(12):
        name = f"{number * 7919 + 10**7:x}-aa"
        _film(root / "train" / f"{name}.dcm", name)
        boxes = [(20 + number, 11, 9, 12.5), (3, 22, 8, 9)][: number % 3]
        for x, y, width, height in boxes or [("", "", "", "")]:
            rows.append({"patient": name, "x": x, "y": y, "width": width, "height": height, "Target": int(bool(boxes))})
    table(root / "labels.csv", rows)


def corners_by_readers(root: Path) -> None:
    """Corners that several readers drew, and a word for films where nothing is."""
    rows: list[dict[str, object]] = []
    kinds = ("Nodule/Mass", "Pleural effusion", "Cardiomegaly")
    for number in range(15):
        name = f"{number * 7919 + 10**7:x}"
        picture(root / "png" / f"{name}.png", (48, 40))
        for reader in ("R1", "R9"):
            row: dict[str, object] = {"image_id": name, "class_name": "No finding", "class_id": 14, "rad_id": reader}
            row |= dict.fromkeys(("x_min", "y_min", "x_max", "y_max"), "")
            if number % 3:
                kind = number % 3 if reader == "R1" else 0
                row |= {"class_name": kinds[kind], "class_id": kind, "x_min": 20, "y_min": 11 + number}
                row |= {"x_max": 44.5, "y_max": 30 + number % 7}
            rows.append(row)
    table(root / "train.csv", rows)


def corners_in_another_order(root: Path) -> None:
    """Paths, the table's own words for the numbers, and no row for what is healthy."""
    rows: list[dict[str, object]] = []
    for side, many in (("train", 9), ("val", 6)):
        for number in range(many):
            name = f"{side}/img_{number:02d}.jpg"
            picture(root / "images" / name, (48, 40))
            if number % 3:
                edges = {"XMin": 30, "XMax": 46, "YMin": 20 + number, "YMax": 39}
                rows.append({"path": f"images/{name}", **edges, "finding": ("caries", "implant")[number % 2]})
    table(root / "boxes.csv", rows)


def lists_by_side(root: Path) -> None:
    for side, many in (("train", 10), ("test", 5)):
        items = []
        for number in range(many):
            picture(root / f"{side}_data" / f"{side[:2]}{number:03d}.png", (48, 40))
            boxes = [[20, 5, 44, 30], [12, 15, 19, 22 + number], [2, 2, 47, 39]][: number % 4]
            kinds = ["Effusion", "Nodule", "Effusion"][: number % 4]
            items.append({"file_name": f"{side[:2]}{number:03d}.png", "syms": kinds, "boxes": boxes})
        save_json(root / f"{side}.json", items)


def cells_of_text(root: Path) -> None:
    rows = []
    for number in range(12):
        picture(root / "films" / f"f_{number:02d}.png", (48, 40))
        boxes = ["22 13 40 31", "3 4 19.5 28"][: number % 3]
        side = "train" if number < 8 else "test"
        rows.append({"image": f"f_{number:02d}.png", "marked": "; ".join(boxes), "split": side})
    table(root / "data.csv", rows)


def one_box_a_row(root: Path) -> None:
    rows = []
    for number in range(10):
        picture(root / "train" / f"{number:03d}ab.jpg", (48, 40))
        box = f"[{30 - number}.0, 20.0, 6.0, 11.5]"
        rows.append({"image_id": f"{number:03d}ab", "width": 48, "height": 40, "bbox": box})
    table(root / "train.csv", rows)


def boxes_as_objects(root: Path) -> None:
    """An object an image, an object a box, classes as numbers with names in a file."""
    held = {}
    for number in range(12):
        picture(root / "images" / f"case{number:03d}.png", (48, 40))
        boxes = [{"x": 30, "y": 18, "w": 12, "h": 20, "class": 0}]
        boxes += [{"x": 2, "y": 5, "w": 9, "h": 9, "class": number % 2}]
        held[f"case{number:03d}.png"] = {"boxes": boxes[: number % 3], "source": "clinic"}
    save_json(root / "annotations.json", held)
    save_json(root / "classes.json", {"0": "polyp", "1": "ulcer"})


def columns_of_structures(root: Path) -> None:
    items = []
    for number in range(10):
        picture(root / f"scan{number}.png", (48, 40))
        marks = {"liver": [[20, 10, 45, 38]], "kidney": [[3, 5, 12, 14], [5, 25, 12, 36]] if number % 2 else []}
        items.append({"image": f"scan{number}.png", "boxes": marks})
    save_json(root / "organs.json", items)


def middles_as_shares(root: Path) -> None:
    rows = []
    for number in range(10):
        picture(root / "img" / f"p{number:02d}.png", (48, 40))
        edges = {"x_center": 0.7, "y_center": 0.25 + number / 50, "w": 0.3, "h": 0.125}
        rows.append({"file": f"p{number:02d}.png", "label": ("tumor", "cyst")[number % 2], **edges})
    table(root / "boxes.csv", rows)


def outlines(root: Path) -> None:
    rows = []
    for number in range(10):
        picture(root / "img" / f"p{number:02d}.png", (48, 40))
        points = [[[3, 4], [20, 4], [20, 30 + number / 2]], [[30, 4], [40, 4], [40, 12]]][: number % 3]
        rows.append({"file": f"p{number:02d}.png", "polygons": points})
    save_json(root / "outlines.json", rows)


def either(root: Path) -> None:
    """Nothing tells whether numbers are two corners, or a corner and a size."""
    rows = []
    for number in range(10):
        picture(root / "img" / f"p{number:02d}.png", (48, 40))
        rows.append({"file": f"p{number:02d}.png", "box": f"{number + 1} 3 {number + 12} 18"})
    table(root / "boxes.csv", rows)


def by_headers(root: Path) -> None:
    """Tables by what the headers of films say: their names say nothing."""
    rows: list[dict[str, object]] = []
    for number in range(10):
        film = _film(root / f"IM{number:04d}.dcm", f"person{number // 2}")
        if number % 3:
            edges: dict[str, object] = {"x1": 20, "y1": 10, "x2": 44, "y2": 30 + number}
        else:
            edges = dict.fromkeys(("x1", "y1", "x2", "y2"), "")
        rows.append({"SOPInstanceUID": film.SOPInstanceUID, **edges})
    table(root / "boxes.csv", rows)
    text(root / "README.md", "films and boxes")


def lists_of_namesakes(root: Path) -> None:
    """Images of both sides have the same names."""
    for side, many in (("train", 10), ("test", 5)):
        items = []
        for number in range(many):
            picture(root / side / f"{number:03d}.png", (48, 40))
            boxes = [[20, 5, 44, 30]] if (number + len(side)) % 2 else []
            items.append({"file_name": f"{number:03d}.png", "boxes": boxes})
        save_json(root / f"{side}.json", items)


def boxes_to_the_edge(root: Path) -> None:
    """A far corner is the picture's own size, so that no far corner is a pixel."""
    items = []
    for number in range(10):
        picture(root / f"scan{number}.png", (48, 40))
        items.append({"image": f"scan{number}.png", "boxes": [[20, 10, 40 + number % 9, 30]]})
    save_json(root / "boxes.json", items)


def _mask(**fields: object) -> dict[str, object]:
    return {"masks": [fields]}


WORLDS = {
    "sizes of films": World(
        sizes_of_films, "anomaly_detection", 12, 12, counts={"opacity": 8}, asked={"only": ["opacity"]}, dimensions=2,
        rules=_mask(kind="boxes", table="labels", columns=["x", "y", "width", "height"], box="size",
                    structure="opacity"),
    ),
    "corners by readers": World(
        corners_by_readers, "anomaly_detection", 15, 15, dimensions=2,
        counts={"Cardiomegaly": 5, "Nodule/Mass": 10, "Pleural effusion": 5},
    ),
    "corners in another order": World(
        corners_in_another_order, "anomaly_detection", 15, 15, counts={"caries": 5, "implant": 5},
        splits={"train": 9, "val": 6},
    ),
    "lists by side": World(
        lists_by_side, "anomaly_detection", 15, 15, counts={"Effusion": 10, "Nodule": 6},
        splits={"train": 10, "test": 5},
        rules=_mask(kind="boxes", table="test", columns=["boxes"], box="inclusive", class_column="syms"),
    ),
    "boxes to the edge": World(
        boxes_to_the_edge, "anomaly_detection", 10, 10, names=("structure",),
        rules=_mask(kind="boxes", table="boxes", columns=["boxes"], structure="structure", missing="empty"),
    ),
    "lists of namesakes": World(
        lists_of_namesakes, "anomaly_detection", 15, 15, counts={"structure": 7}, splits={"train": 10, "test": 5}
    ),
    "cells of text": World(
        cells_of_text, "anomaly_detection", 12, 12, names=("structure",), splits={"train": 8, "test": 4}
    ),
    "one box a row": World(
        one_box_a_row, "anomaly_detection", 10, 10, names=("structure",),
        rules=_mask(kind="boxes", table="train", columns=["bbox"], box="size", structure="structure", missing="empty"),
    ),
    "boxes as objects": World(boxes_as_objects, "anomaly_detection", 12, 12, counts={"polyp": 8, "ulcer": 2}),
    "columns of structures": World(
        columns_of_structures, "organ_segmentation", 10, 10, counts={"kidney": 5, "liver": 10}
    ),
    "middles as shares": World(middles_as_shares, "anomaly_detection", 10, 10, counts={"cyst": 5, "tumor": 5}),
    "outlines": World(outlines, "organ_segmentation", 10, 10, counts={"structure": 6}),
    "either": World(either, "anomaly_detection", 10, 10, key="mask", choices=2),
    "by headers": World(by_headers, "anomaly_detection", 10, 5, counts={"structure": 6}, dimensions=2),
}  # fmt: skip
