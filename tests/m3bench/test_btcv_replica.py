"""The BTCV replica: thirteen organs where a body has them, names with gaps, a part that nobody labelled."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from m3bench.phantoms.abdomen import ORGANS
from m3bench.replicas import make

SPLEEN, RIGHT_KIDNEY, LEFT_KIDNEY, GALLBLADDER, ESOPHAGUS, LIVER = range(1, 7)
AORTA, CAVA, PANCREAS, RIGHT_ADRENAL, LEFT_ADRENAL = 8, 9, 11, 12, 13


@pytest.fixture(scope="module")
def root(tiny: Callable[[str], Path]) -> Path:
    return tiny("btcv")


@pytest.fixture(scope="module")
def truth(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(root.with_name(f"{root.name}.truth.json").read_text("utf-8"))
    return found


def numbers(folder: Path, prefix: str) -> list[int]:
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    assert all(name.startswith(prefix) and name.endswith(".nii.gz") for name in names)
    return [int(name.removeprefix(prefix).removesuffix(".nii.gz")) for name in names]


def masks(root: Path) -> list[Any]:
    """(x, y, z) with the axes running to the left, front and head."""
    paths = sorted((root / "Training/label").iterdir())
    return [np.asarray(nibabel.load(path).dataobj) for path in paths]


def test_tree_and_numbers_with_gaps(root: Path) -> None:
    labelled = numbers(root / "Training/img", "img")

    assert labelled == numbers(root / "Training/label", "label")
    assert set(labelled) <= {*range(1, 11), *range(21, 41)} and min(labelled) < 11 and max(labelled) > 20
    assert numbers(root / "Testing/img", "img") == [61, 62, 63, 64]
    assert sorted(path.name for path in (root / "Testing").iterdir()) == ["img"]
    assert sorted(path.name for path in root.iterdir()) == ["Testing", "Training", "labels.json"]
    assert (root / "Training/img/.DS_Store").is_file()


def test_labels_are_in_the_order_of_their_values(root: Path, truth: dict[str, Any]) -> None:
    assert json.loads((root / "labels.json").read_text("utf-8")) == list(ORGANS)
    assert truth["label_values"] == {name: value for value, name in enumerate(ORGANS, 1)}
    assert ORGANS[0] == "spleen" and ORGANS[5] == "liver" and ORGANS[12] == "left adrenal gland"


def test_formats_and_geometry(root: Path) -> None:
    spacings = set()
    for path in sorted((root / "Training/img").glob("*.nii.gz")):
        image = nibabel.load(path)
        mask = nibabel.load(root / "Training/label" / path.name.replace("img", "label"))
        assert str(image.get_data_dtype()) == "int16" and str(mask.get_data_dtype()) == "uint8"
        assert image.shape == mask.shape and image.shape[:2] == (64, 64) and 24 <= image.shape[2] <= 40
        assert nibabel.aff2axcodes(image.affine) == ("L", "A", "S")
        plane, _, thick = image.header.get_zooms()
        assert 0.59 <= plane <= 0.98 and 2.5 <= thick <= 5
        spacings.add((plane, thick))
        pixels = np.asarray(image.dataobj)
        assert pixels.min() >= -1024 and pixels.max() <= 3071 and (pixels < -700).mean() > 0.1
    assert len(spacings) == 14


def test_organs_lie_where_a_body_has_them(root: Path) -> None:
    for mask in masks(root):
        at = {value: np.argwhere(mask == value).mean(axis=0) for value in range(1, 14) if (mask == value).any()}
        assert set(at) | {GALLBLADDER} == {*range(1, 14)}
        left, front, head = 0, 1, 2
        assert at[LEFT_KIDNEY][left] > at[AORTA][left] > at[CAVA][left] > at[RIGHT_KIDNEY][left]
        assert at[SPLEEN][left] > at[PANCREAS][left] > at[LIVER][left]
        assert at[LEFT_ADRENAL][left] > at[RIGHT_ADRENAL][left]
        assert at[LEFT_ADRENAL][head] > at[LEFT_KIDNEY][head] and at[RIGHT_ADRENAL][head] > at[RIGHT_KIDNEY][head]
        assert at[ESOPHAGUS][head] > at[PANCREAS][head] > at[RIGHT_KIDNEY][head]
        assert at[PANCREAS][front] > at[AORTA][front] > at[LEFT_KIDNEY][front] - 6


def test_organs_have_their_sizes_and_densities(root: Path) -> None:
    shares, adrenals = [], []
    for path, mask in zip(sorted((root / "Training/img").glob("*.nii.gz")), masks(root), strict=True):
        pixels = np.asarray(nibabel.load(path).dataobj)
        shares.append((mask == LIVER).sum() / (mask > 0).sum())
        adrenals += [int((mask == value).sum()) for value in (RIGHT_ADRENAL, LEFT_ADRENAL)]
        median = {value: float(np.median(pixels[mask == value])) for value in (SPLEEN, LIVER, AORTA, 7)}
        assert 70 < median[LIVER] < 170 and 70 < median[SPLEEN] < 180
        assert median[AORTA] > median[LIVER] > median[7], "contrast agent is in the vessels, not in the stomach"
    assert 0.3 < float(np.mean(shares)) < 0.8
    assert min(adrenals) >= 5 and max(adrenals) < 150


def test_one_patient_has_no_gallbladder(root: Path, truth: dict[str, Any]) -> None:
    (without,) = [quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "no_gallbladder"]
    lacking = [path.name for path, mask in zip(sorted((root / "Training/label").iterdir()), masks(root), strict=True)
               if GALLBLADDER not in mask]  # fmt: skip
    assert lacking == [Path(without).name.replace("img", "label")]


def test_as_distributed_it_has_no_label_list(tmp_path: Path) -> None:
    make("btcv", tmp_path / "data", layout="distributed", size="layout")

    top = tmp_path / "data/RawData"
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["RawData"]
    assert numbers(top / "Training/label", "label") == [*range(1, 11), *range(21, 41)]
    assert numbers(top / "Testing/img", "img") == [*range(61, 81)]
    assert not list(top.rglob("*.json"))
