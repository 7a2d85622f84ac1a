"""One fault planted in a small clean set of volumes and masks: it is found, with where it is and what to do."""

import gzip
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from tests.gate.conftest import Check
from tests.gate.folders import AFFINE, SHAPE, mask, nifti, scans, volume

IMAGE, MASK = "images/case_03.nii.gz", "masks/case_03.nii.gz"


def test_a_clean_set_has_no_errors_and_says_what_there_is(check: Check, tmp_path: Path) -> None:
    found = check(scans(tmp_path))
    assert found["errors"] == 0 and set(found["kinds"]) == {"patients_unknown"}
    said = found["overview"]
    assert (said["images"], said["masks"], said["pairs"]) == (16, 8, 8)
    assert said["structures"] == {"liver": 1, "spleen": 2} and said["orientations"] == {"RAS": 8}
    assert [axis["median"] for axis in said["spacing_mm"]] == [0.8, 0.8, 2.0]
    assert said["images_read"] == said["masks_read"] == 8 and not found["skipped"]
    assert check(tmp_path)["summary"] == found["summary"]


def turn(root: Path) -> None:
    nifti(root / MASK, mask()[::-1], AFFINE @ np.diag([-1, 1, 1, 1]))


def shift(root: Path) -> None:
    affine = AFFINE.copy()
    affine[2, 3] = 4.5
    nifti(root / MASK, mask(), affine)


def cut(root: Path) -> None:
    path = root / IMAGE
    path.write_bytes(path.read_bytes()[:-400])


def interpolated(root: Path) -> None:
    nifti(root / MASK, mask().astype(np.float32) * 0.75)


def unplaced(root: Path) -> None:
    image = nib.Nifti1Image(volume(3), None)
    image.header["sform_code"] = image.header["qform_code"] = 0
    nib.save(image, root / IMAGE)
    image = nib.Nifti1Image(mask(), None)
    image.header["sform_code"] = image.header["qform_code"] = 0
    nib.save(image, root / MASK)


def not_a_number(root: Path) -> None:
    voxels = volume(3).astype(np.float32)
    voxels[1, 1, :3] = np.nan
    voxels[2, 2, 2] = np.inf
    nifti(root / IMAGE, voxels)


def both(root: Path, affine: np.ndarray, shape: tuple[int, ...] = SHAPE) -> None:
    nifti(root / IMAGE, volume(3, shape), affine)
    nifti(root / MASK, mask(shape), affine)


def tilt(root: Path) -> None:
    angle = np.radians(14)
    turned = np.eye(4)
    turned[1:3, 1:3] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    both(root, turned @ AFFINE)


def values(root: Path, *numbers: int) -> None:
    for number in range(1, 9):
        nifti(root / "masks" / f"case_{number:02d}.nii.gz", mask(values=numbers))


def one_rare(root: Path) -> None:
    nifti(root / MASK, mask(values=(1, 2, 3)))


def all_empty_texts(root: Path) -> None:
    (root / "cases.csv").write_text("file\n" + "".join(f"case_{n:02d}.nii.gz\n" for n in (*range(1, 9), 44)))


def grey(root: Path) -> None:
    for number in (2, 5):
        nifti(root / "images" / f"case_{number:02d}.nii.gz", np.abs(volume(number)) % 256)


PLANTED: dict[str, tuple[Callable[[Path], object], int, str, str]] = {
    # kind: what is planted, count, part of an example, part of the repair
    "image_without_mask": (lambda root: (root / MASK).unlink(), 1, IMAGE, "leave it out"),
    "mask_without_image": (lambda root: (root / IMAGE).unlink(), 1, MASK, "leave it out"),
    "empty_file": (lambda root: (root / IMAGE).write_bytes(b""), 1, IMAGE, "copy it again"),
    "truncated": (cut, 1, IMAGE, "copy it again"),
    "undecodable": (lambda root: (root / IMAGE).write_bytes(gzip.compress(b"no image" * 99)), 1, IMAGE, "export"),
    "appledouble": (lambda root: (root / "images/._case_03.nii.gz").write_bytes(b"\0\5\x16\7"), 1, "._case", "leave"),
    "shape_mismatch": (lambda root: nifti(root / MASK, mask((12, 10, 9))), 1, MASK, "nearest neighbour"),
    "orientation_mismatch": (turn, 1, MASK, "reorient the mask by its affine"),
    "affine_mismatch": (shift, 1, MASK, "look at an overlay"),
    "four_axes": (lambda root: nifti(root / IMAGE, volume(3, (*SHAPE, 4))), 1, IMAGE, "one volume"),
    "mask_not_whole": (interpolated, 1, MASK, "Do not round"),
    "mask_negative": (lambda root: nifti(root / MASK, -mask().astype(np.int16)), 1, MASK, "ask what they mean"),
    "mask_not_finite": (lambda root: nifti(root / MASK, np.full(SHAPE, np.nan, np.float32)), 1, MASK, "leave"),
    "mask_is_image": (lambda root: nifti(root / MASK, np.abs(volume(3))), 1, MASK, "more values"),
    "mask_float": (lambda root: nifti(root / MASK, mask().astype(np.float64)), 1, MASK, "integers"),
    "empty_mask": (lambda root: nifti(root / MASK, mask(values=())), 1, MASK, "truly absent"),
    "mask_two_values": (lambda root: values(root, 255), 8, "all masks", "take the values 0 and 255 as 0 and 1"),
    "value_gaps": (lambda root: values(root, 1, 2, 5), 2, "all masks", "by their values"),
    "rare_value": (one_rare, 1, "value 3", "leave it out of the structures"),
    "values_unnamed": (lambda root: values(root, 1, 7), 1, "labels.json", "check the names"),
    "not_finite": (not_a_number, 1, IMAGE, "lowest finite value"),
    "constant_image": (lambda root: nifti(root / IMAGE, np.full(SHAPE, 7, np.int16)), 1, IMAGE, "shows nothing"),
    "spacing_outlier": (lambda root: both(root, np.diag([8.0, 8.0, 20.0, 1.0])), 1, IMAGE, "check the unit"),
    "size_outlier": (lambda root: both(root, AFFINE, (60, 40, 8)), 1, IMAGE, "look at it"),
    "no_orientation": (unplaced, 1, IMAGE, "do not reorient"),
    "oblique": (tilt, 1, IMAGE, "keep each affine"),
    "mixed_orientations": (lambda root: both(root, np.diag([-0.8, -0.8, 2.0, 1.0])), 1, IMAGE, "one orientation"),
    "mixed_intensities": (grey, 2, "images/case_02", "0 to 255"),
    "row_without_file": (all_empty_texts, 1, "case_44.nii.gz", "leave these rows out"),
    "link": (lambda root: (root / "images/case_99.nii.gz").symlink_to(root / IMAGE), 1, "case_99", "the file itself"),
    "archive": (lambda root: (root / "more.zip").write_bytes(b"PK\3\4"), 1, "more.zip", "unpack"),
    "clutter": (lambda root: (root / ".DS_Store").write_bytes(b"x"), 1, ".DS_Store", "leave"),
    "image_by_content": (lambda root: Image.new("L", (9, 9)).save(root / "IM0001", "png"), 1, "IM0001", "its content"),
    "odd_name": (lambda root: nifti(root / "images/a\tb.nii.gz", volume(70)), 1, "a\\tb", "plain name"),
    "table_unreadable": (lambda root: (root / "x.json").write_text('[1, // no\n2]'), 1, "x.json", "fault in mind"),
    "beside_volumes": (lambda root: Image.new("L", (9, 9)).save(root / "view.png"), 1, "view.png", "leave these out"),
}  # fmt: skip
ERRORS = {"image_without_mask", "mask_without_image", "empty_file", "truncated", "undecodable", "shape_mismatch",
          "orientation_mismatch", "affine_mismatch", "four_axes", "mask_not_whole", "mask_negative", "mask_not_finite",
          "mask_is_image", "not_finite", "constant_image", "row_without_file", "odd_name",
          "table_unreadable"}  # fmt: skip


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_fault_is_found_with_its_repair(check: Check, tmp_path: Path, kind: str) -> None:
    plant, count, example, repair = PLANTED[kind]
    plant(scans(tmp_path))
    found = check(tmp_path)
    one = found["kinds"][kind]
    assert one["count"] == count and len(one["examples"]) <= 5
    assert any(example in name for name in one["examples"]), one
    assert repair in one["repair"] and one["severity"] == ("error" if kind in ERRORS else "warning")
    others = {other for other in found["kinds"] if other in ERRORS} - {kind}
    assert not others, "one fault, one error"
    assert kind in found["summary"] and one["repair"] in found["summary"]


def test_names_that_differ_are_paired_by_a_rule_that_is_said(check: Check, tmp_path: Path) -> None:
    for number in range(1, 7):
        nifti(tmp_path / f"imagesTr/liver_{number:03d}_0000.nii.gz", volume(number))
        nifti(tmp_path / f"labelsTr/liver_{number:03d}.nii.gz", mask())
    for number in (11, 12):
        nifti(tmp_path / f"imagesTs/liver_{number:03d}_0000.nii.gz", volume(number))
    nifti(tmp_path / "imagesTr/liver_7_0000.nii.gz", volume(7))
    nifti(tmp_path / "labelsTr/Liver-0007_done.nii.gz", mask())
    found = check(tmp_path)
    assert found["overview"]["pairs"] == 6 and found["errors"] == 0
    assert "channel" in found["kinds"]["pair_names"]["repair"]
    assert found["kinds"]["unlabelled_folder"]["details"] == {"imagesTs": "2 images"}
    loose = found["kinds"]["loose_pair"]
    assert loose["details"] == {"imagesTr/liver_7_0000.nii.gz": "and labelsTr/Liver-0007_done.nii.gz"}
    assert "after removing `_0000`" in loose["repair"]


def test_spacing_is_measured_against_the_others(check: Check, tmp_path: Path) -> None:
    both(scans(tmp_path), np.diag([8.0, 8.0, 20.0, 1.0]))
    one = check(tmp_path)["kinds"]["spacing_outlier"]
    assert one["measured"]["times_the_median"][:3] == [10, 10, 10] and "10 times the median" in one["details"][IMAGE]


def test_a_voxel_of_no_size_is_an_error(check: Check, tmp_path: Path) -> None:
    path = scans(tmp_path) / IMAGE
    raw = bytearray(gzip.decompress(path.read_bytes()))
    raw[80:84] = np.float32(np.nan).tobytes()  # pixdim[1]
    path.write_bytes(gzip.compress(bytes(raw)))
    assert check(tmp_path)["kinds"]["bad_spacing"]["examples"] == [IMAGE]
