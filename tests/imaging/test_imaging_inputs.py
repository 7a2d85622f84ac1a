"""What a person points at, and what of it is one image."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from shared.imaging.inputs import input_files, input_name, views_of
from shared.imaging.volume import BadImage
from tests.imaging.make import series

VOLUME = np.zeros((4, 3, 3), np.uint16)


def test_a_folder_is_its_images_in_natural_order(tmp_path: Path) -> None:
    for name in ("10.png", "9.png", ".hidden.png", "notes.txt", "attributes.json", "Thumbs.db"):
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in input_files(tmp_path)] == ["9.png", "10.png"]
    assert input_files(tmp_path / "notes.txt") == [tmp_path / "notes.txt"]
    (tmp_path / "empty").mkdir()
    for gone, text in ((tmp_path / "empty", "holds no image"), (tmp_path / "gone", "does not exist")):
        with pytest.raises(BadImage, match=text):
            input_files(gone)


def test_folders_of_dicom_files_without_suffix(tmp_path: Path) -> None:
    for file in series(tmp_path, VOLUME):
        file.rename(tmp_path / f"IM{file.stem}")
    (tmp_path / "DICOMDIR").write_bytes((tmp_path / "IM000").read_bytes())
    assert [path.name for path in input_files(tmp_path)] == ["IM000", "IM001", "IM002"]


def test_names_of_inputs(tmp_path: Path) -> None:
    assert input_name(Path("a/scan.v2.nii.gz")) == "scan.v2" and input_name(Path("1.2.840.5")) == "1.2.840.5"
    (tmp_path / "case.7").mkdir()
    assert input_name(tmp_path / "case.7") == "case.7"


def test_views_of_an_examination(tmp_path: Path) -> None:
    first, second = series(tmp_path / "a", VOLUME), series(tmp_path / "b", VOLUME, SeriesInstanceUID="5.6")
    pictures = [tmp_path / "1.png", tmp_path / "2.png"]
    for picture in pictures:
        Pillow.fromarray(VOLUME[..., 0].astype(np.uint8)).save(picture)
    volumes = [tmp_path / "t1.nii.gz", tmp_path / "t2.nii.gz"]
    found = views_of([*volumes, *first, *pictures, *second], 3)
    assert found == [[volumes[0]], [volumes[1]], first, pictures, second]
    assert views_of([*pictures, *first], 2) == [[path] for path in (*pictures, *first)]
