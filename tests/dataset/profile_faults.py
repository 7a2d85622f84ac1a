"""Sound data of real files, and faults that are planted in them: how each is warned of."""

import gzip
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
from PIL import Image

from tests.dataset.survey_files import AFFINE, SHAPE, mask_volume, picture, table, texture, volume

IMAGE, MASK = "images/case_03.nii.gz", "masks/case_03.nii.gz"
Fault = Callable[[Path], object]


def scans(root: Path) -> Path:
    for number in range(1, 9):
        volume(root / f"images/case_{number:02d}.nii.gz", number, hu=True)
        mask_volume(root / f"masks/case_{number:02d}.nii.gz", (1, 2))
    return root


def films(root: Path) -> Path:
    rows: list[object] = [("filename", "patient_id", "label")]
    for number in range(24):
        name = ("sick", "well")[number % 2]
        path = picture(root / f"{name}/img{number:03d}.png", number)
        rows.append((path.name, f"P{number // 2 * 2 + number % 2:03d}", name))
    table(root / "table.csv", *rows)
    return root


def change(root: Path, old: str, new: str) -> None:
    path = root / "table.csv"
    path.write_text(path.read_text().replace(old, new))


def cut(root: Path) -> None:
    path = root / IMAGE
    path.write_bytes(path.read_bytes()[:-400])


def shifted(root: Path) -> None:
    affine = AFFINE.copy()
    affine[2, 3] = 4.5
    mask_volume(root / MASK, (1, 2), affine=affine)


def interpolated(root: Path) -> None:
    for number in range(1, 9):
        voxels = np.zeros(SHAPE, np.float32)
        voxels[2:6, 2:6, 2:6], voxels[1, 2:6, 2:6] = 1, 0.4
        nibabel.save(nibabel.Nifti1Image(voxels, AFFINE), root / f"masks/case_{number:02d}.nii.gz")


def not_a_number(root: Path) -> None:
    voxels = texture(3, SHAPE).astype(np.float32)
    voxels[1, 1, :3] = np.nan
    nibabel.save(nibabel.Nifti1Image(voxels, AFFINE), root / IMAGE)


def both(root: Path, affine: np.ndarray, shape: tuple[int, ...] = SHAPE) -> None:
    volume(root / IMAGE, 3, shape, affine, hu=True)
    mask_volume(root / MASK, (1, 2), shape, affine)


def negative(root: Path) -> None:
    voxels = np.zeros(SHAPE, np.int16)
    voxels[2:6, 2:6], voxels[8:10, 8:10] = 1, -1
    nibabel.save(nibabel.Nifti1Image(voxels, AFFINE), root / MASK)


def constant(root: Path) -> None:
    nibabel.save(nibabel.Nifti1Image(np.full(SHAPE, 7, np.int16), AFFINE), root / IMAGE)


def grey(root: Path) -> None:
    for number in (2, 5):
        volume(root / f"images/case_{number:02d}.nii.gz", number)


def masks_of_255(root: Path) -> None:
    for number in range(1, 9):
        mask_volume(root / f"masks/case_{number:02d}.nii.gz", (255,))


def video(root: Path) -> None:
    (root / "cine.mp4").write_bytes(b"0" * 99)


def other_format(root: Path) -> None:
    for path in (root / "sick").glob("*.png"):
        Image.open(path).save(path.with_suffix(".jpg"))
        path.unlink()


def other_size(root: Path) -> None:
    for place, path in enumerate((root / "sick").iterdir()):
        picture(path, 9 + place, (30, 30))


def spelled(root: Path) -> None:
    for number in (0, 4):
        change(root, f"P{number:03d},sick", f"P{number:03d},Sick")


IN_SCANS: dict[str, tuple[Fault, str, str]] = {
    # fault -> what plants it, how its warning begins, what it says besides
    "mask away": (lambda root: (root / MASK).unlink(), "1 image without mask, such as images/case_03", "left out"),
    "image away": (lambda root: (root / IMAGE).unlink(), "1 mask without image, such as masks/case_03", "images added"),
    "empty file": (lambda root: (root / IMAGE).write_bytes(b""), "1 file of 0 bytes, such as images/case_03", "copy"),
    "cut off": (cut, "1 image file is cut off, such as images/case_03.nii.gz", "copy them again from their source"),
    "no image": (
        lambda root: (root / IMAGE).write_bytes(gzip.compress(b"none" * 99)),
        "1 of 16 files looked into cannot be read",
        "case_03",
    ),
    "other shape": (
        lambda root: mask_volume(root / MASK, shape=(14, 12, 9)),
        "1 of 8 masks looked at does not lie on the grid",
        "14 x 12 x 9",
    ),
    "other place": (shifted, "1 of 8 masks looked at does not lie on the grid", "nearest neighbours"),
    "interpolated": (interpolated, "8 of 8 masks looked into cannot be used", "not whole"),
    "negative": (negative, "1 of 8 masks looked into holds negative values, such as masks/case_03", "rules"),
    "not a number": (not_a_number, "1 of 16 files looked into holds NaN", "case_03"),
    "constant": (constant, "1 of 8 images looked into has one value only", "show nothing"),
    "fourth axis": (
        lambda root: volume(root / IMAGE, 3, (*SHAPE, 4)),
        "1 of 8 volumes looked at has a fourth axis (length 4)",
        "axis4",
    ),
    "spacing": (
        lambda root: both(root, np.diag([8.0, 8.0, 20.0, 1.0])),
        "1 image has a spacing far from",
        "20 mm where most have 2 mm",
    ),
    "size": (lambda root: both(root, AFFINE, (60, 60, 8)), "1 image has a size far from", "60 x 60 x 8"),
    "empty mask": (
        lambda root: mask_volume(root / MASK, ()),
        "1 of 8 masks looked into marks nothing, such as masks/case_03",
        "leave them out",
    ),
    "grey values": (grey, "2 of 8 volumes looked into hold grey values", "images/case_02"),
    "255": (masks_of_255, "Masks masks/case_{part1}.nii.gz hold 0 and 255", "rules"),
    "archive": (
        lambda root: (root / "more.zip").write_bytes(b"PK\3\4"),
        "1 archive that is not opened, such as more.zip",
        "unpack",
    ),
    "video": (video, "1 file of a format that is not supported yet (video, .mp4)", "one PNG a frame"),
    "copy": (
        lambda root: (root / "images/case_04.nii.gz").write_bytes((root / IMAGE).read_bytes()),
        "1 image has an exact copy",
        "images/case_03.nii.gz and images/case_04",
    ),
}
IN_FILMS: dict[str, tuple[Fault, str, str]] = {
    "file away": (
        lambda root: (root / "sick/img004.png").unlink(),
        "1 row of table.csv without a file, such as img004.png",
        "left out",
    ),
    "row away": (
        lambda root: change(root, "img004.png,P004,sick\n", ""),
        "1 image without a row (by column filename of table.csv), such as sick/img004.png",
        "rows added",
    ),
    "other class": (
        lambda root: change(root, "img004.png,P004,sick", "img004.png,P004,well"),
        "1 image with another class by column label of table.csv than by folder 1",
        "sick/img004.png (well and sick)",
    ),
    "few": (
        lambda root: [path.unlink() for path in sorted((root / "sick").iterdir())[2:]],
        "1 class has fewer than 3 patients",
        "sick (2)",
    ),
    "spelling": (spelled, "1 class is spelled in several ways (column label of table.csv)", "'Sick'"),
    "wrong ending": (
        lambda root: Image.new("L", (20, 20)).save(root / "sick/img004.png", "jpeg"),
        "1 image file has content of another format",
        "holds .jpg",
    ),
    "copies disagree": (
        lambda root: (root / "sick/img004.png").write_bytes((root / "well/img001.png").read_bytes()),
        "1 image stands under different classes",
        "which class is right",
    ),
    "broken table": (
        lambda root: (root / "more.xlsx").write_bytes(b"PK\3\4nothing"),
        "1 table cannot be read, such as more.xlsx",
        "CSV",
    ),
    "size tells": (other_size, "The size of the images alone tells the class", "30 x 30"),
    "format tells": (other_format, "The format of the files alone tells the class", "export"),
}
