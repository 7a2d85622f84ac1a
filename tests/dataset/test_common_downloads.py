"""What everyday downloads showed: keys that most files have, lists of the same files, red masks, folders of studies."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from propose_files import RANDOM, palette_picture, picture, table

from shared.dataset.propose import propose
from shared.imaging.errors import BadImage
from shared.imaging.masks import read_label_map


def test_a_whole_name_in_each_row_is_the_key_though_some_files_are_missing(tmp_path: Path) -> None:
    """Patients name every image, too, but not one by one."""
    rows = []
    for number in range(48):
        patient, name = f"us_{number // 4:03}", f"us_{number // 4:03}_L{number % 4}_{number * 29 % 97:03}"
        score = (number // 4 + number) % 4
        rows.append({"Frame": name, "Patient": patient, "LUS score": score, "A-lines": int(score == 0)})
        if number % 16:
            picture(tmp_path / f"frames/{patient}/{name}.png")
    table(tmp_path / "annotations.csv", rows)
    best = propose(tmp_path, "diagnosis", target="the lung ultrasound severity score (0 to 3) of an image")[0]
    assert best.rules["label"]["source"]["column"] == "LUS score" and not best.key
    assert best.coverage.cases == 45 and best.coverage.patients == 12 and len(best.coverage.counts) == 4


def test_two_lists_of_the_same_files_do_not_lead_to_one_another(tmp_path: Path) -> None:
    """A picture stands in both of two folders, so that its name alone is no key of either list."""
    rows = []
    for number in range(40):
        kind, side = ("glioma", "pituitary")[number % 2], ("train", "test")[number % 4 == 0]
        name = f"{side}_{number:05}.jpg"
        pixels = RANDOM.integers(0, 255, (32, 32)).astype(np.uint8)
        for task, folder in (("classes", kind), ("masks", "images")):
            file = tmp_path / task / side / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(file)
            rows.append({"task": task, "path": f"{task}/{side}/{folder}/{name}", "tumour": kind})
    table(tmp_path / "manifest.csv", rows)
    (tmp_path / "manifest.json").write_text(json.dumps(rows))
    best = propose(tmp_path, "diagnosis", target="glioma or pituitary tumour")[0]
    assert best.coverage.cases == 40 and set(best.coverage.counts.values()) == {20}


def test_red_masks_in_a_folder_for_each_lesion_are_called_as_their_folders(tmp_path: Path) -> None:
    lesions = {"1. Microaneurysms": "MA", "2. Haemorrhages": "HE", "3. Soft Exudates": "SE"}
    for number in range(1, 25):
        side = ("a. Training Set", "b. Testing Set")[number > 16]
        picture(tmp_path / f"Images/{side}/eye_{number:02}.png", (32, 32))
        for place, (folder, short) in enumerate(lesions.items()):
            if short == "SE" and number % 2:
                continue
            marked = np.zeros((32, 32, 3), np.uint8)
            marked[4 + 8 * place : 10 + 8 * place, 3:9, 0] = 255
            file = tmp_path / f"Truths/{side}/{folder}/eye_{number:02}_{short}.tif"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(marked).save(file)
    best = propose(tmp_path, "anomaly_detection", target="outline microaneurysms, haemorrhages and exudates")[0]
    assert best.coverage.counts == {"Haemorrhages": 24, "Microaneurysms": 24, "Soft Exudates": 12}
    labels, _ = read_label_map(tmp_path / "Truths/a. Training Set/2. Haemorrhages/eye_01_HE.tif")
    assert labels.sum() == 36 and set(np.unique(labels)) == {0, 1}
    palette_picture(tmp_path / "two.png", [(255, 0, 0), (0, 255, 0)])
    with pytest.raises(BadImage, match="give its colours"):
        read_label_map(tmp_path / "two.png")


def test_pictures_of_a_study_are_its_views_where_the_request_speaks_of_studies(tmp_path: Path) -> None:
    for number in range(30):
        folder = f"patient{number // 2:05}/study{1 + number % 2}_{('negative', 'positive')[number % 3 > 0]}"
        for view in range(1, 2 + number % 3):
            picture(tmp_path / f"train/XR_SHOULDER/{folder}/image{view}.png")
    studies = propose(tmp_path, "diagnosis", target="whether the study of a shoulder is abnormal")[0]
    assert studies.rules["several"] == "views" and studies.coverage.cases == 30
    assert (studies.coverage.counts, studies.coverage.patients) == ({"negative": 10, "positive": 20}, 15)
    single = propose(tmp_path, "diagnosis", target="whether a radiograph of the shoulder is abnormal")[0]
    assert single.coverage.cases == 60
