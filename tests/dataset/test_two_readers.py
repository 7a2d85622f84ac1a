"""Two readers name their files, and store what they mark, each in a way of their own."""

from pathlib import Path

from propose_files import mask_volume, volume

from shared.dataset.propose import propose
from shared.dataset.propose.images import image_drafts
from shared.dataset.survey.survey import survey


def test_masks_beside_images_are_found_by_the_names_of_each_reader(tmp_path: Path) -> None:
    for number in range(30):
        if number < 18:
            folder, image, mask = tmp_path / f"reader1_MK/PELV_{number:03}", "t{}_tse_ax", "Segmentation"
        else:
            folder, image, mask = tmp_path / f"reader2_TW/Pelv{number:03}", "{0}01 T{0}W_TSE_ax", "Segmentation_301 T2W"
        for kind in (1, 2) if number % 7 == 0 else (2,):
            volume(folder / f"{image.format(kind)}.nii.gz", (8 + 2 * kind, 7, 6))
        mask_volume(folder / f"{mask}.nii.gz", (1, 2, 3), (12, 7, 6))
    drafts = image_drafts(survey(tmp_path), "organ_segmentation", None, [])
    taken = {piece.pattern for draft in drafts for piece in draft.pieces}
    assert {
        "reader1_MK/PELV_{part1}/t2_tse_ax.nii.gz",
        "reader2_TW/Pelv{part1}/{part2_2} {part3_2}W_TSE_ax.nii.gz",
    } <= taken


def test_what_is_1_to_one_program_and_255_to_another_is_one_structure(tmp_path: Path) -> None:
    for number in range(20):
        volume(tmp_path / f"scans/MAM{number:04}.nii.gz")
        reader, value = (("LV", 1), ("PG", 255))[number % 2]
        mask_volume(tmp_path / f"drawn/MAM{number:04}_lesion_{reader}.nii.gz", (value,))
    best = propose(tmp_path, "anomaly_detection")[0]
    assert best.coverage.cases == 20 and best.coverage.label_names == ("lesion",)
