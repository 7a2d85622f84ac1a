"""Which files open, and which names are clutter."""

import gzip
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

from shared.trainkit.imagefile import inspect_image, is_hidden, readable, suffix_of


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A sound file of each kind."""
    noise = np.random.default_rng(0).integers(0, 256, (40, 30), dtype=np.uint8)
    for suffix in ("png", "jpg", "BMP", "tif"):
        Image.fromarray(noise).save(tmp_path / f"picture.{suffix}")
    volume = np.random.default_rng(0).normal(size=(8, 9, 10)).astype(np.float32)
    for suffix in ("nii", "nii.gz"):
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), tmp_path / f"volume.{suffix}")
    nibabel.save(nibabel.Nifti2Image(volume, np.eye(4)), tmp_path / "second.nii")
    np.save(tmp_path / "array.npy", volume)
    (tmp_path / "slice.dcm").write_bytes(bytes(128) + b"DICM" + bytes(20))
    return {path.name: path for path in tmp_path.iterdir()}


def test_sound_files_open(files: dict[str, Path]) -> None:
    assert {name: readable(path) for name, path in files.items()} == dict.fromkeys(files)
    assert inspect_image(files["picture.png"]).size == "30x40"
    assert inspect_image(files["volume.nii.gz"]).size == "8x9x10"
    assert inspect_image(files["second.nii"]).size == "8x9x10"
    assert inspect_image(files["array.npy"]).size == "8x9x10"


def test_truncated_files_do_not(files: dict[str, Path]) -> None:
    for name, path in files.items():
        path.write_bytes(path.read_bytes()[: 100 if name == "slice.dcm" else path.stat().st_size * 2 // 3])
        assert readable(path), name


def test_damage_inside_is_found_by_checksums(files: dict[str, Path]) -> None:
    for name in ("picture.png", "volume.nii.gz"):
        content = bytearray(files[name].read_bytes())
        content[len(content) // 2] ^= 0xFF
        files[name].write_bytes(content)
        assert readable(files[name]), name


def test_empty_wrong_and_pickled_files(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pt"
    empty.touch()
    assert readable(empty) == "the file is empty"
    text = tmp_path / "text.nii.gz"
    text.write_bytes(gzip.compress(b"hello" * 200))
    assert "no NIfTI header" in str(readable(text))
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    assert "pickled" in str(readable(objects))
    missing = readable(tmp_path / "gone.png")
    assert missing is not None and str(tmp_path) not in missing


def test_hidden_names_and_suffixes() -> None:
    for name in ("._0001.png", ".DS_Store", "__MACOSX/CP/1.png", "CP/Thumbs.db", "a/._b/c.png"):
        assert is_hidden(name), name
    for name in ("0001.png", "CP/10/3153/0172.png", "./a.png", "x.y/z"):
        assert not is_hidden(name), name
    assert suffix_of("A.NII.GZ") == ".nii.gz"
    assert suffix_of("1_IM-0001-4001.dcm.PNG") == ".png"
