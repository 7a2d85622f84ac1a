"""The ChestX-Det10 replica: boxes as distributed, masks painted from them in the paper's layout."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from m3bench.datasets.chestx_det10 import masks
from m3bench.replicas import make

NAMES = [
    "Atelectasis", "Calcification", "Consolidation", "Effusion", "Emphysema", "Fibrosis", "Fracture", "Mass", "Nodule",
    "Pneumothorax",
]  # fmt: skip


@pytest.fixture(scope="module")
def root(tiny: Callable[[str], Path]) -> Path:
    return tiny("chestx-det10")


@pytest.fixture(scope="module")
def images(root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(root.with_name(f"{root.name}.truth.json").read_text())["images"]
    return found


def test_paper_layout_has_images_masks_and_ordered_labels(root: Path, images: list[dict[str, Any]]) -> None:
    assert sorted(path.name for path in root.iterdir()) == ["images", "labels.json", "masks"]
    assert json.loads((root / "labels.json").read_text()) == NAMES
    names = sorted(path.name for path in (root / "images").iterdir())
    assert names == sorted(path.name for path in (root / "masks").iterdir())
    assert all(re.fullmatch(r"\d{8}_\d{3}\.png", name) for name in names) and len(names) >= 100
    modes = Counter()  # type: Counter[str]
    for name in names:
        with Image.open(root / "images" / name) as image, Image.open(root / "masks" / name) as mask:
            modes[image.mode] += 1
            assert image.size == mask.size == (128, 128) and mask.mode == "L"
    assert modes == {"L": len(names) - 2, "RGBA": 2}
    patients = Counter(name.split("_")[0] for name in names)
    assert max(patients.values()) >= 3


def test_masks_are_the_boxes_with_small_ones_on_top(root: Path, images: list[dict[str, Any]]) -> None:
    for entry in images:
        mask = np.asarray(Image.open(root / "masks" / entry["file_name"]))
        assert np.array_equal(mask, masks(entry["boxes"], entry["syms"], mask.shape))
        if entry["boxes"]:
            areas = [(x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in entry["boxes"]]
            smallest = int(np.argmin(areas))
            x1, y1, x2, y2 = entry["boxes"][smallest]
            assert (mask[y1 : y2 + 1, x1 : x2 + 1] == NAMES.index(entry["syms"][smallest]) + 1).any()
    painted = masks([(1, 1, 8, 8), (3, 3, 4, 4)], ["Mass", "Nodule"], (10, 10))
    assert painted.diagonal().tolist() == [0, 8, 8, 9, 9, 8, 8, 8, 8, 0]


def test_findings_are_as_uneven_as_in_reality(images: list[dict[str, Any]]) -> None:
    counts = Counter(name for entry in images for name in entry["syms"])
    assert set(counts) == set(NAMES)
    assert counts.most_common(2)[0][0] in ("Consolidation", "Effusion") and counts["Mass"] < counts["Effusion"] / 3
    empty = sum(not entry["syms"] for entry in images) / len(images)
    assert 0.1 < empty < 0.4


def test_distributed_layout_has_parallel_lists_and_patients_in_both_parts(tmp_path: Path) -> None:
    truth = json.loads(make("chestx-det10", tmp_path / "D", patients=40, layout="distributed", workers=1).read_text())
    names = {}
    for part in ("train", "test"):
        entries = json.loads((tmp_path / "D" / f"{part}.json").read_text())
        assert all(list(entry) == ["file_name", "syms", "boxes"] for entry in entries)
        for entry in entries:
            assert len(entry["syms"]) == len(entry["boxes"])
            assert all(1 <= x1 < x2 <= 126 and 1 <= y1 < y2 <= 126 for x1, y1, x2, y2 in entry["boxes"])
        names[part] = {entry["file_name"] for entry in entries}
        assert names[part] == {path.name for path in (tmp_path / "D" / f"{part}_data").iterdir()}
    shared = {name.split("_")[0] for name in names["train"]} & {name.split("_")[0] for name in names["test"]}
    assert shared == {quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "patient_in_both_parts"} != set()
