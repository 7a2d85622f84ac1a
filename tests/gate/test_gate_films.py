"""Classes, patients, tables, pictures and DICOM: one fault planted in a small clean set, and found."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from tests.gate.conftest import Check
from tests.gate.folders import dicom, dicoms, films, mask, nifti, picture, volume


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (print, ("pwned",))


def replace(root: Path, old: str, new: str) -> None:
    path = root / "table.csv"
    path.write_text(path.read_text().replace(old, new))


def add(root: Path, *lines: str) -> None:
    path = root / "table.csv"
    path.write_text(path.read_text() + "".join(f"{line}\n" for line in lines))


def all_sick(root: Path) -> None:
    for path in (root / "well").iterdir():
        path.rename(root / "sick" / path.name)
    (root / "well").rmdir()
    replace(root, "well", "sick")


def rows(root: Path, header: str, cells: Callable[[int], str]) -> None:
    lines = [f"img{n:03d}.png,P{n:03d},{('sick', 'well')[n % 2]},{cells(n)}" for n in range(24)]
    (root / "table.csv").write_text("\n".join([f"filename,patient_id,label,{header}", *lines]) + "\n")


def split(root: Path) -> None:
    rows(root, "split", lambda n: "test" if n > 19 else "train")
    replace(root, "P022", "P000")


def copy(root: Path, source: str, target: str) -> None:
    (root / target).write_bytes((root / source).read_bytes())


def rare(root: Path, number: int) -> None:
    for count in range(number):
        picture(root / "odd" / f"img9{count:02d}.png", 900 + count)


def shortcut(root: Path) -> None:
    for path in (root / "sick").glob("*.png"):
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()


def text(root: Path) -> None:
    rows(root, "findings", lambda n: "Not given." if n in (3, 7) else f'"Clear lungs, film {n} without any change."')


def same_patients(root: Path) -> None:
    replace(root, "P004", "P000")
    replace(root, "P006", "P000")


def colour(root: Path) -> None:
    Image.fromarray(np.random.default_rng(1).integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(
        root / "sick/img002.png"
    )


PLANTED: dict[str, tuple[Callable[[Path], object], int, str, str]] = {
    "truncated": (lambda root: (root / "sick/img002.png").write_bytes((root / "sick/img002.png").read_bytes()[:90]),
                  1, "sick/img002.png", "copy it again"),
    "wrong_extension": (lambda root: Image.new("L", (16, 16), 9).save(root / "sick/img002.png", "jpeg"),
                        1, "sick/img002.png", "read it by its content"),
    "mixed_extensions": (lambda root: (root / "sick/img002.png").rename(root / "sick/img002.PNG"), 1, ".PNG", "lower"),
    "mixed_pixels": (colour, 1, "sick/img002.png", "one channel"),
    "row_without_file": (lambda root: add(root, "img777.png,P777,sick"), 1, "img777", "leave"),
    "file_without_row": (lambda root: picture(root / "sick/img500.png", 500), 1, "sick/img500.png", "no label"),
    "empty_label": (lambda root: replace(root, "P003,well", "P003,"), 1, "label", "leave"),
    "label_spelling": (lambda root: replace(root, "P003,well", "P003,Well "), 1, "Well", "as one"),
    "rows_disagree": (lambda root: add(root, "img003.png,P003,sick"), 1, "img003", "which label"),
    "empty_text": (text, 2, "findings", "leave these rows out"),
    "no_support": (lambda root: rare(root, 2), 1, "odd", "leave the class out"),
    "few_patients": (lambda root: rare(root, 5), 1, "odd", "wide interval"),
    "one_class": (all_sick, 1, "sick", "add"),
    "class_shortcut": (shortcut, 2, "sick", "export is not learned"),
    "copies": (lambda root: copy(root, "sick/img002.png", "sick/img004.png"), 1, "sick/img004.png", "one of each"),
    "copies_disagree": (lambda root: copy(root, "sick/img002.png", "well/img003.png"), 1, "well/img003", "which label"),
    "several_scans": (same_patients, 1, "P000", "split by patient (column 'patient_id' of table.csv)"),
    "both_sides": (split, 1, "P000", "new split by patient"),
    "size_outlier": (lambda root: picture(root / "sick/img002.png", 2, (64, 40)), 1, "sick/img002.png", "look at it"),
    "unsafe_pickle": (lambda root: (root / "sick/img002.pck").write_bytes(pickle.dumps(Evil())), 1, ".pck", "never"),
    "constant_image": (lambda root: Image.new("L", (16, 16)).save(root / "sick/img002.png"), 1, "img002", "leave"),
}  # fmt: skip


def test_a_clean_set_has_nothing_wrong(check: Check, tmp_path: Path) -> None:
    found = check(films(tmp_path))
    assert found["findings"] == [] and "Nothing was found that is wrong" in found["summary"]
    assert found["overview"]["classes"] == {"folders <class>": {"sick": 12, "well": 12}}
    assert found["overview"]["patients"] == {"number": 24, "known": "stated", "by": "column 'patient_id' of table.csv"}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_fault_is_found_with_its_repair(check: Check, tmp_path: Path, kind: str) -> None:
    plant, count, example, repair = PLANTED[kind]
    plant(films(tmp_path))
    found = check(tmp_path)
    one = found["kinds"][kind]
    assert one["count"] == count, one
    assert any(example in name for name in one["examples"]), one
    assert repair in one["repair"] and one["repair"] in found["summary"]


def test_imbalance_is_told_with_its_numbers(check: Check, tmp_path: Path) -> None:
    films(tmp_path)
    (tmp_path / "table.csv").unlink()
    rare(tmp_path, 3)
    for number in range(100, 125):
        picture(tmp_path / "sick" / f"img{number}.png", number)
    one = check(tmp_path)["kinds"]["imbalance"]
    assert one["details"] == {"folders <class>": "sick 37, odd 3 patients"} and "balanced accuracy" in one["repair"]


def test_lists_of_labels_count_one_by_one_over_both_tables(check: Check, tmp_path: Path) -> None:
    for side, first, number in (("train", 0, 24), ("test", 24, 12)):
        entries = []
        for count in range(first, first + number):
            picture(tmp_path / side / f"{count:05d}_000.png", count)
            found = [["Mass", "Nodule", "Nodule"], ["Mass"], []][count % 3]
            entries.append({"file_name": f"{count:05d}_000.png", "syms": [*found, *(["Rare"] if count == 4 else [])]})
        (tmp_path / f"{side}.json").write_text(json.dumps(entries))
    found = check(tmp_path)
    assert found["overview"]["classes"] == {
        "column 'syms' of test.json, train.json": {"Mass": 24, "Nodule": 12, "Rare": 1}
    }
    assert found["kinds"]["no_support"]["examples"] == ["Rare"]


def test_a_column_about_patients_is_not_their_id(check: Check, tmp_path: Path) -> None:
    films(tmp_path)
    replace(tmp_path, "patient_id", "PatientSex")
    assert check(tmp_path)["overview"]["patients"]["known"] == "inferred"


def test_a_scan_is_found_by_the_folder_that_only_it_stands_in(check: Check, tmp_path: Path) -> None:
    lines = ["Image Data ID,Subject,Group"]
    for count in range(12):
        nifti(tmp_path / f"S{count // 2}/T1/I9{count:02d}/x_{count}_raw.nii", volume(count))
        lines.append(f"I9{count:02d},S{count // 2},{'AD' if count % 4 < 2 else 'CN'}")
    (tmp_path / "scans.csv").write_text("\n".join([*lines, "I777,S9,AD"]) + "\n")
    found = check(tmp_path)
    assert found["overview"]["patients"] == {"number": 6, "known": "stated", "by": "column 'Subject' of scans.csv"}
    assert found["kinds"]["row_without_file"]["examples"] == ["I777"] and "file_without_row" not in found["kinds"]


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_masks_as_pictures_of_two_heaps(check: Check, tmp_path: Path, suffix: str) -> None:
    for number in range(6):
        picture(tmp_path / f"images/x{number}.png", number, (40, 40))
        held = np.zeros((40, 40), np.uint8)
        held[10:30, 10:30] = 255
        if suffix == "png" and number == 2:
            held[9, 9:29] = np.arange(20) * 12  # an edge that some program smoothed
        (tmp_path / "masks").mkdir(exist_ok=True)
        Image.fromarray(held).save(tmp_path / f"masks/x{number}.{suffix if number == 2 else 'png'}", quality=60)
    found = check(tmp_path)["kinds"]
    assert found["mask_lossy"]["examples"] == [f"masks/x2.{suffix}"] and "as PNG" in found["mask_lossy"]["repair"]
    assert found["mask_two_values"]["repair"] == "take the values 0 and 255 as 0 and 1"


def test_a_coloured_mask_is_no_mask(check: Check, tmp_path: Path) -> None:
    for number in range(4):
        picture(tmp_path / f"images/x{number}.png", number)
        held = np.zeros((16, 16), np.uint8)
        held[4:9, 4:9] = 1
        (tmp_path / "masks").mkdir(exist_ok=True)
        Image.fromarray(held).save(tmp_path / f"masks/x{number}.png")
    Image.new("RGB", (16, 16), (255, 0, 3)).save(tmp_path / "masks/x1.png")
    one = check(tmp_path)["kinds"]["mask_colour"]
    assert one["examples"] == ["masks/x1.png"] and "by a table" in one["repair"]


def test_dicom_patients_are_read_from_the_files(check: Check, tmp_path: Path) -> None:
    found = check(dicoms(tmp_path))
    assert found["errors"] == 0 and found["overview"]["samples"] == 6
    assert found["overview"]["patients"] == {"number": 6, "known": "stated", "by": "the DICOM tag PatientID"}
    assert found["overview"]["spacing_mm"][0] == {"min": 0.7, "median": 0.7, "max": 0.7}


def test_scans_of_slices_with_faults(check: Check, tmp_path: Path) -> None:
    dicoms(tmp_path)
    (tmp_path / "scan02/003.dcm").unlink()
    dicom(tmp_path / "scan03/002.dcm", 2, "1.2.99", "PAT2", 3)
    dicom(tmp_path / "scan05/001.dcm", 1, "1.2.5", "PAT0", 4)
    raw = (tmp_path / "scan06/004.dcm").read_bytes()
    (tmp_path / "scan06/004.dcm").write_bytes(raw[:100])
    (tmp_path / "IM_0001").write_bytes(raw)
    found = check(tmp_path)["kinds"]
    assert found["slice_gap"]["details"] == {"scan02": "1 missing between 1 and 6"}
    assert (
        found["several_series"]["examples"] == ["scan03"] and "SeriesInstanceUID" in found["several_series"]["repair"]
    )
    assert found["several_scans"]["details"] == {"PAT0": "2 samples"}
    assert found["undecodable"]["examples"] == ["scan06/004.dcm"]
    assert found["image_by_content"]["details"] == {"IM_0001": "the content is DICOM"}


def test_slices_of_two_sizes_in_one_scan(check: Check, tmp_path: Path) -> None:
    for scan in range(4):
        for number in range(8):
            picture(tmp_path / f"p{scan + 1:03d}/{number:02d}.png", scan * 10 + number)
    picture(tmp_path / "p002/02.png", 99, (16, 20))
    one = check(tmp_path)["kinds"]["mixed_slices"]
    assert one["details"] == {"p002": "16x16 and 16x20"}


def test_two_dimensions_among_three(check: Check, tmp_path: Path) -> None:
    for number in range(6):
        nifti(
            tmp_path / f"scan{number}.nii.gz", np.random.default_rng(number).integers(0, 9, (8, 8, 6)).astype(np.int16)
        )
    nib.save(nib.Nifti1Image(np.arange(64, dtype=np.int16).reshape(8, 8), np.eye(4)), tmp_path / "flat.nii.gz")
    one = check(tmp_path)["kinds"]["mixed_dimensions"]
    assert one["details"] == {"flat.nii.gz": "2D, 8x8; most are 3D"} and one["measured"]["axes"] == {"2D": 1, "3D": 6}


def test_masks_that_no_name_gives_away(check: Check, tmp_path: Path) -> None:
    for number in range(5):
        held = np.random.default_rng(number).integers(-900, 900, (8, 8, 6)).astype(np.int16)
        nifti(tmp_path / f"a/{number}.nii.gz", held)
        nifti(tmp_path / f"b/{number}.nii.gz", mask((8, 8, 6)))
    found = check(tmp_path)
    assert found["overview"]["pairs"] == 5 and found["overview"]["masks"] == 5


def test_an_empty_folder_and_one_without_images(check: Check, tmp_path: Path) -> None:
    assert set(check(tmp_path)["kinds"]) == {"no_images"}
    (tmp_path / "notes.txt").write_text("nothing here")
    assert check(tmp_path)["errors"] == 1


def test_hostile_names_and_cells_stay_harmless(check: Check, tmp_path: Path) -> None:
    films(tmp_path)
    add(tmp_path, "\x1b[31mred.png,P777,sick", "x" * 5000 + ".png,P778,well")
    found = check(tmp_path)
    assert found["kinds"]["row_without_file"]["count"] == 2
    assert "\x1b" not in found["summary"] and len(found["summary"]) < 12_000
