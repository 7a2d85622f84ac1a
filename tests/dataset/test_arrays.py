"""Datasets whose cases, classes and patients stand in files of arrays: found, resolved and decoded."""

import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from PIL import Image

from shared.contracts.rules import Rules
from shared.dataset.files.inside import texts_of
from shared.dataset.intake.intake_records import Order
from shared.dataset.profile.profile import profile
from shared.dataset.profile.show import show
from shared.dataset.propose import propose
from shared.dataset.rules.resolve import RulesError, resolve
from shared.imaging import entries
from shared.imaging.errors import BadImage
from shared.imaging.volume import read, to_dhw
from tests.dataset.array_layouts import LAYOUTS, film, made, marked_entries
from tests.dataset.intake_shard import run
from tests.dataset.resolve_files import carried_out


@pytest.mark.parametrize("name", LAYOUTS)
def test_rules_are_found_that_give_the_true_cases(name: str, tmp_path: Path) -> None:
    truth = made(name, tmp_path)
    proposals = propose(tmp_path, "diagnosis")
    assert proposals, "nothing was proposed"
    done = resolve(Rules.model_validate(proposals[0].rules), tmp_path)
    found = {}
    patients = {}
    for case in done.cases:
        part = case.images[0][0]
        place = (part.files[0], part.array, part.index)
        found[place] = "|".join(case.label) if isinstance(case.label, tuple) else case.label
        patients[place] = case.patient
    assert found == truth.labels
    if truth.patients:
        assert patients == truth.patients
    else:
        assert len(set(patients.values())) == len(patients)
    for (file, array, index), pixels in truth.pixels.items():
        image = read([tmp_path / file], array=array, index=index)
        assert np.array_equal(to_dhw(image.array[..., 0], image), pixels if pixels.ndim == 3 else pixels[None])


def test_masks_and_patients_of_entries_are_found_and_decoded(tmp_path: Path) -> None:
    masks = marked_entries(tmp_path)
    rules = Rules.model_validate(propose(tmp_path, "organ_segmentation")[0].rules)
    done = resolve(rules, tmp_path)
    assert len(done.cases) == 24 and done.coverage.patients == 12
    assert set(done.coverage.label_values.values()) == {1, 2}
    out = tmp_path / "shard"
    shard = run(tmp_path, out, done.cases, Order(dimensions=2, masks=True, workers=3))
    for case in done.cases:
        files = shard.files(case.key)
        assert set(files) == {"image.png", "mask.png"}, shard.taken[case.key]
        index = case.images[0][0].index
        assert np.array_equal(np.asarray(Image.open(files["mask.png"])), masks[index])
        image = np.load(tmp_path / "data.npz")["images"][index]
        assert np.array_equal(np.asarray(Image.open(files["image.png"])), image)


def test_masks_of_entries_in_a_file_of_their_own(tmp_path: Path) -> None:
    marked_entries(tmp_path)
    held = np.load(tmp_path / "data.npz")
    np.save(tmp_path / "images.npy", held["images"])
    np.save(tmp_path / "masks.npy", held["masks"])
    (tmp_path / "data.npz").unlink()
    done = resolve(Rules.model_validate(propose(tmp_path, "organ_segmentation")[0].rules), tmp_path)
    assert [case.masks[0].index for case in done.cases] == [case.images[0][0].index for case in done.cases]
    assert {case.masks[0].files for case in done.cases} == {("masks.npy",)} and len(done.cases) == 24


def test_a_large_packed_array_is_read_forward_once_and_never_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    films = rng.integers(0, 255, (300, 64, 64), dtype=np.uint8)
    np.savez_compressed(tmp_path / "all.npz", x=films)
    read_bytes = 0
    plain = zipfile.ZipExtFile.read

    def counted(self: Any, *args: Any) -> bytes:
        nonlocal read_bytes
        found = plain(self, *args)
        read_bytes += len(found)
        return found

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    for index in range(0, 300, 3):
        image = read([tmp_path / "all.npz"], array="x", index=index)
        assert np.array_equal(image.array[..., 0], films[index])
    assert read_bytes < 2 * films.nbytes
    # Backward works too, at the price of beginning anew.
    assert np.array_equal(read([tmp_path / "all.npz"], array="x", index=2).array[..., 0], films[2])


_FORMS = ["npy", "npz", "fortran", "h5", "mat", "mat73"]
_SHAPES = [(5, 6, 7), (5, 6, 7, 3), (5, 9, 6, 7), (5, 1, 6, 7)]


@pytest.mark.parametrize(
    ("form", "shape"),
    # MATLAB has no axis of one in front.
    [(form, shape) for form in _FORMS for shape in _SHAPES if not (form.startswith("mat") and shape[1] == 1)],
)
def test_an_entry_is_what_a_file_of_its_own_would_be(form: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.random.default_rng(1).integers(0, 255, shape, dtype=np.uint8)
    path = tmp_path / f"all.{form.replace('fortran', 'npz').replace('mat73', 'mat')}"
    name: str | None = "x"
    if form == "npy":
        np.save(path, array)
        name = None
    elif form in ("npz", "fortran"):
        np.savez_compressed(path, x=np.asfortranarray(array) if form == "fortran" else array)
    elif form == "h5":
        with h5py.File(path, "w") as file:
            file["x"] = array
    else:
        # MATLAB has rows, columns, slices or colours, entries.
        theirs = np.moveaxis(array, 0, -1) if shape[-1] == 3 or len(shape) == 3 else array.transpose(2, 3, 1, 0)
        if form == "mat":
            scipy.io.savemat(path, {"x": theirs})
        else:
            with h5py.File(path, "w", userblock_size=512) as file:
                file["x"] = theirs.T
            with path.open("r+b") as stream:
                stream.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    for index in (3, 4, 0):
        np.save(tmp_path / "one.npy", array[index])
        alone, entry = read([tmp_path / "one.npy"]), read([path], array=name, index=index)
        assert np.array_equal(entry.array, alone.array) and (entry.affine is None) == (alone.affine is None)
    with pytest.raises(BadImage, match="no number 5"):
        read([path], array=name, index=5)


def test_files_that_stay_open_are_few(tmp_path: Path) -> None:
    for number in range(20):
        np.savez(tmp_path / f"{number}.npz", x=np.zeros((4, 5, 6), np.uint8) + number)
        assert read([tmp_path / f"{number}.npz"], array="x", index=1).array.max() == number
    assert len(entries._opened) <= entries._OPEN


@pytest.mark.parametrize(
    ("values", "count", "texts"),
    [
        (np.array([[1.0], [2.0]]), 2, ["1", "2"]),
        (np.array([[1, 2, 3]]), 3, ["1", "2", "3"]),
        (np.array([[1, 0, 1], [0, 0, 0]]), 2, ["0|2", ""]),
        (np.array(["a ", "b"]), 2, ["a", "b"]),
        (np.array([b"a", b"b"]), 2, ["a", "b"]),
        (np.array("benign"), None, ["benign"]),
        (np.array([[0.5]]), None, ["0.5"]),
        (np.array([float("nan"), 1]), 2, ["", "1"]),
        (np.array(7), 3, ["7", "7", "7"]),
        (np.array([1, 2, 3]), 2, None),
        (np.array([[4, 5], [6, 7]]), 2, None),
    ],
)
def test_values_of_arrays_as_text(values: Any, count: int | None, texts: list[str] | None) -> None:
    assert texts_of(values, count) == texts


def test_a_value_of_each_file_is_the_class(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(4):
        np.savez(tmp_path / f"{number}.npz", image=film(rng, 0), label=np.array(["a", "b"][number % 2]))
    np.savez(tmp_path / "4.npz", image=film(rng, 0))
    done = carried_out(
        tmp_path,
        images=[{"files": "{n}.npz", "array": "image"}],
        label={"source": {"array": "label"}},
    )
    assert done.coverage.counts == {"a": 2, "b": 2}
    assert done.left_out["case without a class: fill it in, or leave the file out"] == ["4.npz"]


def test_what_is_wrong_with_arrays_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "all.npz", x=np.stack([film(rng, 0)] * 6), z=np.stack([film(rng, 0)] * 6), y=np.arange(5))
    images = [{"files": "all.npz", "array": "x"}]
    with pytest.raises(RulesError, match="6 values, one for each entry"):
        carried_out(tmp_path, images=images, case="entry", label={"source": {"array": "y"}})
    with pytest.raises(RulesError, match="no file has an array 'labels'"):
        carried_out(tmp_path, images=images, case="entry", label={"source": {"array": "labels"}})
    with pytest.raises(RulesError, match="there is no file"):
        carried_out(tmp_path, images=images, case="entry", label={"source": {"array": "", "file": "y.npy"}})
    done = carried_out(tmp_path, images=[{"files": "all.npz"}], case="entry", label={"source": {"value": "a"}})
    assert any("say with `array`" in reason for reason in done.left_out)


def test_a_pickle_in_an_npz_is_not_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.array(["a", 1, None], dtype=object)
    np.savez(tmp_path / "all.npz", x=np.stack([film(rng, 0)] * 3), y=labels)
    with pytest.raises(RulesError, match="Object arrays"):
        carried_out(
            tmp_path,
            images=[{"files": "all.npz", "array": "x"}],
            case="entry",
            label={"source": {"array": "y"}},
        )


def test_the_profile_tells_what_files_of_arrays_hold(tmp_path: Path) -> None:
    made("stack_of_patients", tmp_path)
    found = profile(tmp_path)
    group = found.groups[0]
    assert group.arrays["x"] == "36 x 20 x 24 uint8"
    assert group.arrays["y"] == "36 text, values benign, malignant"
    assert found.labels[0].source.array == "y" and found.labels[0].values == {"benign": 18, "malignant": 18}
    assert "x (36 x 20 x 24 uint8)" in " ".join(show(found).split())
