"""A mask beside several sequences belongs to the one on whose grid it lies."""

from pathlib import Path

import pytest
from propose_files import mask_volume, volume

from shared.dataset.propose import propose
from shared.dataset.propose.drawn_on import drawn_on
from shared.dataset.survey.pieces import piece_of
from shared.dataset.survey.survey import survey

NAMES = {"A": ("ax_t1_se", "ax_t2_flair"), "B": ("t1_tse_tra", "t2_tirm_dark-fluid")}
"""Of two machines: T1 and FLAIR."""


def _ward(root: Path, t1: tuple[int, int, int]) -> None:
    for number in range(16):
        for name, shape in zip(NAMES["AB"[number % 2]], (t1, (10, 9, 6)), strict=True):
            volume(root / f"exam{number:03}" / f"{name}.nii.gz", shape)
        mask_volume(root / f"exam{number:03}" / "outline.nii.gz", (1, 2), (10, 9, 6))


def test_masks_on_the_grid_of_one_sequence_are_of_it(tmp_path: Path) -> None:
    _ward(tmp_path, (12, 12, 7))
    best = propose(tmp_path, "anomaly_detection")[0]
    taken = best.rules["images"]
    assert isinstance(taken, list) and len(taken) == 1 and best.coverage.cases == 16
    assert all("flair" in file or "tirm" in file for file in taken[0]["files"])


@pytest.mark.parametrize("odd", [0, 1])
def test_on_a_common_grid_no_sequence_is_chosen(tmp_path: Path, odd: int) -> None:
    _ward(tmp_path, (10, 9, 6))
    if odd:
        volume(tmp_path / "exam000" / "ax_t1_se.nii.gz", (12, 12, 7))
    seen = survey(tmp_path)
    assert len(seen.images) > 1 and drawn_on([piece_of(one) for one in seen.images], seen) == []
