"""Names of structures that files only mark, and what the Data Engineer is told of masks before it looks itself."""

from pathlib import Path

import pytest
from propose_files import mask_picture, picture

from shared.dataset.profile.profile import profile
from shared.dataset.propose import propose
from shared.dataset.propose.called import structure


@pytest.mark.parametrize(
    ("task", "target", "name"),
    [
        ("anomaly_detection", "Segment thyroid nodules in ultrasound", "thyroid nodule"),
        ("anomaly_detection", "find polyps in colonoscopy", "polyp"),
        ("anomaly_detection", "outline lesions of the skin", "lesion"),
        ("anomaly_detection", "skin lesion segmentation", "skin lesion"),
        ("anomaly_detection", "nodules and effusions of the lung", "structure"),
        ("organ_segmentation", "outline the liver in abdominal CT", "liver"),
        ("organ_segmentation", "the left ventricle in cardiac MR", "structure"),
        ("organ_segmentation", "liver and spleen", "structure"),
        ("organ_segmentation", "", "structure"),
    ],
)
def test_what_a_request_calls_its_one_structure(task: str, target: str, name: str) -> None:
    assert structure((), task, target) == name
    assert structure(("nodule",), task, target) == "nodule"


def test_a_mask_without_a_name_is_called_as_the_request_does(tmp_path: Path) -> None:
    for number in range(12):
        picture(tmp_path / f"images/{number:02d}.png")
        mask_picture(tmp_path / f"masks/{number:02d}.png", () if number % 4 == 0 else (255,))
    best = propose(tmp_path, "anomaly_detection", target="outline thyroid nodules in ultrasound")[0]
    assert best.coverage.label_values == {"thyroid nodule": 1}
    told = profile(tmp_path).for_rules()["groups"]
    assert any("masks/" in one and one.endswith("3 of 12 opened ones mark nothing") for one in told)
    assert any("images/" in one and "mark nothing" not in one for one in told)


def test_what_the_request_calls_a_mask_is_no_reason_to_take_it(tmp_path: Path) -> None:
    for number in range(12):
        picture(tmp_path / f"images/{number:02d}.png")
        mask_picture(tmp_path / f"masks/{number:02d}.png", (1,))
        if number < 10:
            mask_picture(tmp_path / f"labels/{number:02d}.png", (1, 2, 3, 4))
    best = propose(tmp_path, "organ_segmentation", target="outline the brain in head MR")[0]
    assert best.coverage.label_names == ("structure 1", "structure 2", "structure 3", "structure 4")
