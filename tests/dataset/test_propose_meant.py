"""Kinds of images that a request names, and masks of which some are drawings of the same structure."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
from propose_files import RANDOM, mask_picture, mask_volume, picture, table, volume

from shared.contracts.rules import Rules
from shared.dataset.propose import explain, propose
from shared.dataset.propose.classes import Option, without_places
from shared.dataset.propose.meant import chosen
from shared.dataset.rules.resolve import resolve
from shared.dataset.survey.survey import survey


@pytest.mark.parametrize(
    ("target", "values", "found"),
    [
        ("segment the liver in the T2-SPIR series", ("T1DUAL", "T2SPIR"), ("T2SPIR",)),
        ("classify the PA and AP views", ("AP", "L", "PA", "Axial"), ("AP", "PA")),
        ("the processed scans; the raw MP-RAGE are not wanted", ("MP-RAGE", "Scaled"), ("Scaled",)),
        ("take the volumes t88_gfc", ("111_t88_gfc", "sbj_111"), ("111_t88_gfc",)),
        ("classify the pictures", ("native", "processed"), ()),
        ("T1 and T2", ("T1", "T2"), ()),
        ("a pa model", ("PA", "AP"), ()),
    ],
)
def test_a_request_names_kinds_of_images(target: str, values: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert chosen(target, values) == found


def test_only_the_kind_of_images_that_is_meant_is_taken(tmp_path: Path) -> None:
    rows = []
    for number in range(16):
        for kind in ("raw", "N3_scaled"):
            volume(tmp_path / f"{number:03d}_S" / kind / f"I{number:03d}_{kind}.nii.gz")
        rows.append({"subject": f"{number:03d}_S", "group": ("AD", "CN")[number % 2]})
    table(tmp_path / "groups.csv", rows)
    best = propose(tmp_path, "diagnosis", target="AD or CN from the scans N3_scaled")[0]
    assert best.key == "" and best.coverage.cases == 16 and "N3_scaled" in str(best.rules["images"])


def test_a_class_beside_normal_is_no_kind_of_images(tmp_path: Path) -> None:
    for name in ("normal", "covid", "flu"):
        for number in range(8):
            picture(tmp_path / name / f"{name}{number}.png")
    found = propose(tmp_path, "diagnosis", target="find covid")[0]
    assert found.coverage.label_names == ("covid", "flu", "normal")


def ball(path: Path, shift: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y, z = np.ogrid[:24, :22, :6]
    voxels = ((x - 9 - shift) ** 2 + (y - 10) ** 2 + 0 * z < 30).astype(np.uint8)
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), path)


@pytest.mark.parametrize(("apart", "names"), [(2, 1), (11, 2)])
def test_masks_that_overlap_are_drawings_of_one_structure(tmp_path: Path, apart: int, names: int) -> None:
    for number in range(12):
        (tmp_path / "scans").mkdir(exist_ok=True)
        voxels = RANDOM.normal(90, 20, (24, 22, 6)).astype(np.float32)
        nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), tmp_path / f"scans/{number:03d}.nii.gz")
        for place, name in enumerate(("alpha", "beta")):
            ball(tmp_path / f"drawn/{name}/{number:03d}.nii.gz", place * apart + number % 2)
    found = propose(tmp_path, "anomaly_detection", target="segment the lesions")
    assert len(found[0].coverage.label_names) == names and (found[0].key == "mask") == (names == 1)


def test_a_second_mask_of_few_images_is_of_these_only(tmp_path: Path) -> None:
    for number in range(1, 25):
        for kind in ("cyst", "solid"):
            picture(tmp_path / kind / f"{kind}_{number}.png")
            mask_picture(tmp_path / kind / f"{kind}_{number}_mask.png")
            if number % 4 == 0:
                mask_picture(tmp_path / kind / f"{kind}_{number}_mask_2.png")
    (first, *_) = propose(tmp_path, "anomaly_detection", dimensions=2, target="outline lesions")
    found = {case.key: case.masks for case in resolve(Rules.model_validate(first.rules), tmp_path).cases}
    counts = {len(masks) for key, masks in found.items() if "_4." in key or "_12." in key}
    assert len(found) == 48 and counts == {2}
    assert all(Path(key).stem + "_" in file for key, masks in found.items() for one in masks for file in one.files)


@pytest.mark.parametrize(
    ("target", "few", "kept"),
    [("grade of retinopathy", True, False), ("grade of retinopathy", False, True), ("cam1 2021a or b", True, True)],
)
def test_folders_of_few_of_the_images_are_classes_where_one_is_asked_for(target: str, few: bool, kept: bool) -> None:
    """Rolls of one camera among three clinics were taken for grades."""
    rolls = Option("folder 2", ["cam1_2021a", "cam1_2021b"] * 30, 0.75, depth=1, literal=True)
    assert bool(without_places([rolls], (), target, {}, lambda one: (), few)) is kept


@pytest.mark.parametrize("alike", [True, False])
def test_masks_on_other_grids_than_their_images_are_no_proposal(tmp_path: Path, alike: bool) -> None:
    for number in range(12):
        volume(tmp_path / f"scans/p{number:02d}.nii.gz", (8, 7, 6))
        mask_volume(tmp_path / f"masks/p{number:02d}.nii.gz", shape=(8, 7, 6) if alike else (9, 8, 7 + number % 3))
    assert bool(propose(tmp_path, "anomaly_detection", dimensions=3, target="lesions")) is alike
    assert ("grid of its image" in explain(tmp_path, "anomaly_detection", survey(tmp_path))) or alike


def test_visits_of_a_patient_stay_together_beside_a_hospital_that_names_otherwise(tmp_path: Path) -> None:
    """Its images have no mask by the same pattern, and no part of all names told patients apart."""
    for number in range(12):
        for visit in (1, 2):
            name = f"MS{number:03d}_v{visit}"
            volume(tmp_path / "uni" / f"MS{number:03d}" / f"v{visit}" / f"{name}_T1w.nii.gz")
            volume(tmp_path / "uni" / f"MS{number:03d}" / f"v{visit}" / f"{name}_FLAIR.nii.gz")
            for rater in ("AB", "JK"):
                mask_volume(tmp_path / "uni" / f"MS{number:03d}" / f"v{visit}" / f"{name}_lesions_{rater}.nii.gz")
        visit = tmp_path / "Klinikum_Sued" / "MS_export" / f"{40 + 7 * number:04d}" / f"2019{1000 + number}"
        for name in (("t1_mpr_ns_sag", "t2_spc_dark-fluid_sag"), ("t1_mprage_sag", "t2_flair_sag_3D"))[number % 2]:
            volume(visit / f"{name}.nii.gz")
        volume(visit / "localizer.nii.gz", (4, 4, 3))
        mask_volume(visit / "ROI.nii.gz")
    for one in propose(tmp_path, "anomaly_detection", dimensions=3, target="MS lesions"):
        cases = [case for case in resolve(Rules.model_validate(one.rules), tmp_path).cases if case.key[:4] == "uni/"]
        assert len({case.patient for case in cases}) == len({case.key.split("/")[1] for case in cases}), one.says
