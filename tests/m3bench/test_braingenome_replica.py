"""The RadGenome-Brain replica: sequences of five sources, texts per image, a split by image that tears people apart."""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from m3bench.phantoms.brain_lesions import SIDES
from m3bench.replicas import make

IDS = (
    r"BraTS-(GLI|MEN|MET)-\d{5}-00[01]-(t1n|t1c|t2w|t2f)", r"sub-strokecase\d{4}_ses-0001_(dwi|adc)",
    r"(GE3T|Singapore|Utrecht)_\d+_(T1|FLAIR)",
)  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("genome") / "BrainGnome"
    make("braingenome", folder, patients=30, workers=1)
    return folder


def samples(root: Path, part: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((root / f"reports_{part}.json").read_text())
    return found


def test_paper_layout_is_one_folder_of_images_and_two_lists(root: Path) -> None:
    assert sorted(path.name for path in root.iterdir()) == ["images", "reports_test.json", "reports_train.json"]
    rows = samples(root, "train") + samples(root, "test")
    assert all(list(row) == ["image_path", "finding", "impression"] and all(row.values()) for row in rows)
    names = [row["image_path"].removeprefix("images/").removesuffix(".nii.gz") for row in rows]
    assert sorted(names) == sorted(path.name.removesuffix(".nii.gz") for path in (root / "images").iterdir())
    kinds = Counter(next(n for n, pattern in enumerate(IDS) if re.fullmatch(pattern, name)) for name in names)
    assert set(kinds) == {0, 1, 2} and kinds[0] > kinds[1] > kinds[2]


def test_people_are_on_both_sides_of_the_split(root: Path) -> None:
    def patients(part: str) -> set[str]:
        return {re.sub(r"(-\d{3}-\w+|_[^_]+)\.nii\.gz$", "", row["image_path"]) for row in samples(root, part)}

    assert len(patients("train") & patients("test")) == 2


def test_volumes_have_the_geometry_of_their_source(root: Path) -> None:
    shapes = defaultdict(set)
    for path in sorted((root / "images").iterdir()):
        image = nibabel.load(path)
        source = path.name.split("-")[0] if path.name.startswith(("BraTS", "sub")) else "wmh"
        zooms = tuple(round(float(value), 3) for value in image.header.get_zooms())
        shapes[source].add((image.shape, zooms, str(image.get_data_dtype())))
    assert shapes == {
        "BraTS": {((40, 48, 32), (1.0, 1.0, 1.0), "int16")},
        "sub": {((36, 36, 24), (2.0, 2.0, 2.0), "float32")},
        "wmh": {((40, 40, 20), (1.0, 1.0, 3.0), "int16")},
    }


def test_distributed_layout_is_text_beside_the_images_of_the_challenges(tmp_path: Path) -> None:
    truth = json.loads(make("braingenome", tmp_path / "B", patients=30, layout="distributed", workers=1).read_text())
    root = tmp_path / "B"
    assert {path.name for path in root.iterdir()} == {
        "BraTS_GLI", "BraTS_MEN", "BraTS_MET", "ISLES22", "WMH", "images", "train_val_test_split.json",
    }  # fmt: skip
    split = json.loads((root / "train_val_test_split.json").read_text())
    assert list(split) == ["train", "val", "test"]
    texts: dict[str, str] = {}
    for folder in ("BraTS_GLI", "BraTS_MEN", "BraTS_MET", "ISLES22", "WMH"):
        modal = json.loads((root / folder / "modal_wise_finding.json").read_text())
        whole = json.loads((root / folder / "global_finding.json").read_text())
        ends = json.loads((root / folder / "impression.json").read_text())
        assert set(whole) == set(ends) and all(list(end) == ["impression", "disease"] for end in ends.values())
        texts |= modal
    ids = [name for names in split.values() for name in names]
    assert sorted(ids) == sorted(texts)
    assert list((root / "images/WMH/training").glob("Amsterdam/GE3T/*/pre/FLAIR.nii.gz"))
    assert list((root / "images/ISLES-2022").glob("sub-*/ses-0001/*_msk.nii.gz"))
    assert len(list((root / "images").rglob("*.nii.gz"))) == len(ids) + len(truth["cases"])


def test_the_text_names_the_side_on_which_the_lesion_is(tmp_path: Path) -> None:
    truth: dict[str, Any] = json.loads(
        make("braingenome", tmp_path / "B", patients=30, layout="distributed", workers=1).read_text()
    )
    texts = json.loads((tmp_path / "B/BraTS_GLI/modal_wise_finding.json").read_text())
    checked = 0
    for case in truth["cases"]:
        if case["kind"] != "gli":
            continue
        (path,) = (tmp_path / "B/images").rglob(f"{case['name']}-seg.nii.gz")
        mask = nibabel.load(path)
        middle = np.argwhere(np.asarray(mask.dataobj) > 0).mean(axis=0)
        x = float((mask.affine @ [*middle, 1])[0])
        side = "right" if x > 0 else "left"
        assert side == SIDES[case["lesion"]["side"]]
        said = [text for name, text in texts.items() if name.startswith(case["name"])]
        assert len(said) == 4 and all(side in text and case["lesion"]["lobe"] in text for text in said)
        checked += 1
    assert checked >= 4


def test_what_a_text_says_beside_the_place_is_in_the_picture(root: Path) -> None:
    truth: dict[str, Any] = json.loads(root.with_name("BrainGnome.truth.json").read_text())
    told = {row["image_path"]: row["finding"] for part in ("train", "test") for row in samples(root, part)}
    volumes, aside = defaultdict(list), defaultdict(list)
    for case in truth["cases"]:
        lesion = case["lesion"]
        if case["kind"] not in ("gli", "men", "met"):
            continue
        name = f"images/{case['name']}-t2w.nii.gz"
        assert bool(re.search("dilat|enlarge", told[name])) == lesion["wide"]
        assert ("septum" in told[name]) == lesion["shift"]
        assert ("cerebell" in told[name].lower()) == (not lesion["edema"])
        # In FLAIR fluid is dark: where the ventricles lie, from the person's left to the right.
        flair = np.asarray(nibabel.load(root / name.replace("t2w", "t2f")).dataobj, dtype=float)[::-1, ::-1]
        middle = flair[12:28, 14:34, 17:22]
        fluid = middle < 0.6 * np.median(flair[flair > 0])
        volumes[lesion["wide"]].append(float(fluid.mean()))
        aside[lesion["shift"] * lesion["side"]].append(float((np.argwhere(fluid)[:, 0] - 7.5).mean()))
    assert np.median(volumes[True]) > 1.5 * np.median(volumes[False])
    assert np.mean(aside[1]) < np.mean(aside[-1]) - 1
