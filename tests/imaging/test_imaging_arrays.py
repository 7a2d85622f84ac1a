"""Plain arrays of every container, and none that runs code."""

import os
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from shared.imaging.headers import peek
from shared.imaging.volume import BadImage, channels_first, read

RNG = np.random.default_rng(11)
VOLUME = RNG.integers(-1000, 1000, (4, 6, 9)).astype(np.int16)
RGB = RNG.integers(0, 256, (6, 9, 3)).astype(np.uint8)


def save(path: Path, array: np.ndarray) -> Path:
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez_compressed(path, only=array)
    elif path.suffix in (".pt", ".pth"):
        torch.save(torch.from_numpy(array), path)
    elif path.suffix in (".pkl", ".pck", ".pickle"):
        path.write_bytes(pickle.dumps(array))
    elif path.suffix == ".mat":
        matlab = array if array.ndim < 3 or array.dtype == np.uint8 else np.moveaxis(array, 0, 2)
        scipy.io.savemat(path, {"only": matlab}, do_compression=True)
    else:
        with h5py.File(path, "w") as file:
            file["only"] = array
    return path


EVERY = [".npy", ".npz", ".pt", ".pth", ".pkl", ".pck", ".pickle", ".mat", ".h5", ".hdf5"]


@pytest.mark.parametrize("suffix", EVERY)
def test_volumes_slices_first(tmp_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"x{suffix}", VOLUME)
    image = read([path])
    np.testing.assert_array_equal(image.affine, np.eye(4))
    np.testing.assert_array_equal(channels_first(image)[0], VOLUME)
    head = peek(path)
    assert (head.kind, head.dimensions, head.shape) == ("array", 3, (9, 6, 4))


@pytest.mark.parametrize("suffix", EVERY)
def test_pictures_and_colour(tmp_path: Path, suffix: str) -> None:
    path = save(tmp_path / f"p{suffix}", VOLUME[0])
    np.testing.assert_array_equal(read([path]).array[..., 0], VOLUME[0])
    colour = read([save(tmp_path / f"c{suffix}", RGB)])
    assert colour.colour and colour.affine is None
    np.testing.assert_array_equal(colour.array, RGB)
    assert peek(tmp_path / f"c{suffix}").colour


def test_wide_types(tmp_path: Path) -> None:
    np.save(tmp_path / "i.npy", VOLUME.astype(np.int64))
    np.save(tmp_path / "f.npy", VOLUME.astype(">f8"))
    np.save(tmp_path / "b.npy", VOLUME > 0)
    assert [read([tmp_path / f"{name}.npy"]).array.dtype.name for name in "ifb"] == ["int32", "float32", "uint8"]
    np.save(tmp_path / "c.npy", VOLUME.astype(complex))
    np.save(tmp_path / "o.npy", np.array([{}, {}], object), allow_pickle=True)
    for name in "co":
        with pytest.raises(BadImage, match=rf"{name}\.npy holds no array of numbers"):
            read([tmp_path / f"{name}.npy"])


def test_several_arrays_are_told_apart_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", image=VOLUME, mask=VOLUME > 0, label=3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/image"], file["a/mask"] = VOLUME, VOLUME > 0
    scipy.io.savemat(tmp_path / "x.mat", {"cjdata": {"image": VOLUME[0], "mask": VOLUME[0] > 0, "label": 2}})
    (tmp_path / "x.pkl").write_bytes(pickle.dumps({"image": VOLUME, "mask": VOLUME > 0, "id": "p7"}))
    for name, key in (("x.npz", "image"), ("x.h5", "a/image"), ("x.mat", "cjdata/image"), ("x.pkl", "image")):
        with pytest.raises(BadImage, match=rf"{name} holds 2 arrays; say with `array` which one is meant: .*{key}"):
            read([tmp_path / name])
        found = read([tmp_path / name], array=key)
        expected = VOLUME[0] if name == "x.mat" else VOLUME
        np.testing.assert_array_equal(np.squeeze(channels_first(found)), expected)
        with pytest.raises(BadImage, match="no array of numbers named 'nothing'; it holds"):
            read([tmp_path / name], array="nothing")


def test_matlab_of_version_7_3(tmp_path: Path) -> None:
    """HDF5 with MATLAB's header; the axes of its arrays stand there in reverse."""
    matlab = np.moveaxis(VOLUME, 0, 2)
    with h5py.File(tmp_path / "x.mat", "w", userblock_size=512) as file:
        file["cjdata/image"] = matlab.T
        file["#refs#/a"] = VOLUME
    with (tmp_path / "x.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM")
    np.testing.assert_array_equal(channels_first(read([tmp_path / "x.mat"]))[0], VOLUME)
    assert peek(tmp_path / "x.mat").shape == (9, 6, 4)


def test_cubes_of_matlab_are_turned_too(tmp_path: Path) -> None:
    cube = np.arange(27, dtype=np.int16).reshape(3, 3, 3)
    np.testing.assert_array_equal(channels_first(read([save(tmp_path / "x.mat", cube)]))[0], cube)


@pytest.mark.parametrize("suffix", [".pkl", ".pt", ".npy", ".npz"])
def test_nothing_in_a_file_is_run(tmp_path: Path, suffix: str) -> None:
    mark, path = tmp_path / "ran", tmp_path / f"x{suffix}"

    class Touch:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {mark}",)

    if suffix == ".pkl":
        path.write_bytes(pickle.dumps(Touch()))
    elif suffix == ".pt":
        torch.save({"x": Touch()}, path)
    elif suffix == ".npy":
        np.save(path, np.array([Touch(), 1], object), allow_pickle=True)
    else:
        np.savez(path, x=np.array([Touch(), 1], object), allow_pickle=True)
    for look in (peek, lambda file: read([file])):
        with pytest.raises(BadImage, match=rf"x\{suffix} "):
            look(path)
    assert not mark.exists()


def test_links_out_of_a_file_are_not_followed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = VOLUME
    VOLUME.tofile(tmp_path / "raw.bin")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "x")
        layout = h5py.VirtualLayout(shape=VOLUME.shape, dtype=VOLUME.dtype)
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "x", shape=VOLUME.shape)
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", VOLUME.shape, VOLUME.dtype, external=[(str(tmp_path / "raw.bin"), 0, VOLUME.nbytes)])
    for array in (None, "link", "virtual", "raw"):
        with pytest.raises(BadImage, match=r"x\.h5 holds no array of numbers"):
            read([tmp_path / "x.h5"], array=array)


def test_claims_are_checked_before_anything_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (40000, 40000, 400), "f4", chunks=(64, 64, 1))
    with pytest.raises(BadImage, match=r"x\.h5 says that it holds 40000 x 40000 x 400 values"):
        read([tmp_path / "x.h5"])
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((300, 300, 300), np.uint8))
    with pytest.raises(BadImage, match="crop it"):
        read([tmp_path / "x.npz"], most=10_000_000)
