"""Damaged files of every format are refused in words that name them; nothing crashes."""

import random
from collections.abc import Callable
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest
import scipy.io
import SimpleITK
import tifffile
import torch
from PIL import Image as Pillow

from shared.imaging.headers import peek
from shared.imaging.masks import read_label_map
from shared.imaging.volume import BadImage, Image, read
from tests.imaging.make import dicom

VOLUME = np.arange(6 * 7 * 8, dtype=np.int16).reshape(6, 7, 8)
PLANE = VOLUME[0].astype(np.uint8)


def itk(path: Path) -> None:
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(VOLUME), str(path), useCompression=True)


def hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=VOLUME, compression="gzip")


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.nii": lambda path: nibabel.save(nibabel.Nifti1Image(VOLUME, np.eye(4)), path),
    "a.nii.gz": lambda path: nibabel.save(nibabel.Nifti1Image(VOLUME, np.eye(4)), path),
    "a.mgz": lambda path: nibabel.save(nibabel.MGHImage(VOLUME.astype(np.int32), np.eye(4)), path),
    "a.nrrd": itk,
    "a.mha": itk,
    "a.dcm": lambda path: dicom(path, VOLUME[0]),
    "a.png": lambda path: Pillow.fromarray(PLANE).save(path),
    "a.jpg": lambda path: Pillow.fromarray(PLANE).save(path),
    "a.bmp": lambda path: Pillow.fromarray(PLANE).save(path),
    "a.webp": lambda path: Pillow.fromarray(PLANE).save(path),
    "a.gif": lambda path: Pillow.fromarray(PLANE).save(path),
    "a.tif": lambda path: tifffile.imwrite(path, VOLUME, photometric="minisblack", compression="zlib"),
    "a.npy": lambda path: np.save(path, VOLUME),
    "a.npz": lambda path: np.savez_compressed(path, VOLUME),
    "a.pt": lambda path: torch.save(torch.from_numpy(VOLUME), path),
    "a.pkl": lambda path: VOLUME.dump(path),
    "a.mat": lambda path: scipy.io.savemat(path, {"x": VOLUME}, do_compression=True),
    "a.h5": hdf5,
}


def looked_at(path: Path) -> int:
    """Looks that refuse it; any other exception fails the test."""
    refused = 0
    for look in (peek, lambda file: read([file]), read_label_map):
        try:
            look(path)
        except BadImage as error:
            assert path.name in str(error) and str(path.parent) not in str(error)
            refused += 1
    return refused


@pytest.mark.parametrize("name", WRITERS)
def test_damage(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    whole, chance = path.read_bytes(), random.Random(name)
    assert isinstance(read([path]), Image)
    for share in (0, 0.02, 0.3, 0.6):
        path.write_bytes(whole[: int(len(whole) * share)])
        assert looked_at(path) >= 1, f"{share:.0%} of it is taken for whole"
    path.write_bytes(chance.randbytes(600))
    assert looked_at(path) == 3
    for _ in range(40):
        bad = bytearray(whole)
        for _ in range(chance.choice((1, 4, 40))):
            bad[chance.randrange(min(len(bad), 600))] = chance.randrange(256)
        path.write_bytes(bad)
        looked_at(path)


def test_missing_empty_and_unknown(tmp_path: Path) -> None:
    with pytest.raises(BadImage, match=r"gone\.nii\.gz does not exist"):
        read([tmp_path / "gone.nii.gz"])
    with pytest.raises(BadImage, match="gone does not exist"):
        read([tmp_path / "gone"])
    (tmp_path / "empty.png").touch()
    with pytest.raises(BadImage, match=r"empty\.png is empty"):
        read([tmp_path / "empty.png"])
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(BadImage, match=r"notes\.txt is of no known image format"):
        read([tmp_path / "notes.txt"])
    with pytest.raises(BadImage, match="no files"):
        read([])
    nibabel.save(nibabel.Nifti1Image(VOLUME, np.eye(4)), tmp_path / "a.nii")
    nibabel.save(nibabel.Nifti1Image(VOLUME, np.eye(4)), tmp_path / "b.nii")
    with pytest.raises(BadImage, match="are no slices of one image; give one volume a file"):
        read([tmp_path / "a.nii", tmp_path / "b.nii"])
