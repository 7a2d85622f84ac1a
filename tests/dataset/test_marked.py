"""A column of yes and no for what masks mark, held against masks that are missing."""

from pathlib import Path

import pytest
from propose_files import mask_picture, picture, table

from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.rules.marks import LACKS_MASK, NO_MASK
from shared.dataset.rules.resolve import resolve

RULES = {
    "task": "anomaly_detection", "dimensions": 2, "images": [{"files": "images/{case}.png"}],
    "tables": {"list": {"file": "list.csv", "key": "image", "names": "stem"}},
    "masks": [{"files": "masks/{case}.png", "structure": "nodule", "marked": {"table": "list", "column": "nodule"}}],
}  # fmt: skip


def dataset(root: Path, column: str = "nodule") -> Path:
    """Twelve with a mask, six healthy ones, one whose mask is missing, one of which nobody knows."""
    rows = []
    for number in range(20):
        picture(root / f"images/im{number:02d}.png")
        if number < 12:
            mask_picture(root / f"masks/im{number:02d}.png")
        said = "yes" if number < 13 else "" if number == 19 else "no"
        rows.append({"image": f"im{number:02d}", column: said, "age": 40 + number})
    table(root / "list.csv", rows)
    return root


def test_no_without_a_mask_is_healthy_and_yes_without_one_is_told(tmp_path: Path) -> None:
    found = resolve(Rules.model_validate(RULES), dataset(tmp_path))
    assert len(found.cases) == 18 and sum(not case.masks for case in found.cases) == 6
    assert found.left_out == {LACKS_MASK: ["images/im12.png"], NO_MASK: ["images/im19.png"]}
    assert found.coverage.lossless == {"unmasked": 1}, "a mask that ought to be there is a loss"


def test_the_search_finds_the_column(tmp_path: Path) -> None:
    best = propose(dataset(tmp_path), "anomaly_detection", target="outline nodules")[0]
    assert best.rules["masks"][0]["marked"] == {"table": "list", "column": "nodule"}
    assert best.coverage.cases == 18 and best.coverage.left_out[LACKS_MASK] == 1
    assert "where nodule in list.csv says no, nothing is there to mark" in best.says


@pytest.mark.parametrize("column", ["annotated", "nodule drawn", "in_training"])
def test_whether_somebody_has_drawn_says_nothing_of_health(tmp_path: Path, column: str) -> None:
    best = propose(dataset(tmp_path, column), "anomaly_detection", target="outline nodules")[0]
    assert "marked" not in best.rules["masks"][0] and best.coverage.cases == 12
