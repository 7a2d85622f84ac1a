"""Control cases of every canonical form: the grid and type stay, the content goes or hardly changes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shared.dataset.intake.altered import alter
from shared.imaging.headers import peek
from shared.imaging.image import Image
from shared.imaging.volume import read
from shared.imaging.write import write_image

REPOSITORY = Path(__file__).parents[2]
RNG = np.random.default_rng(3)
AFFINE = np.diag([0.7, 0.8, 2.5, 1.0]) + np.eye(4, k=3) * 0
IMAGES = {
    "grey": Image(RNG.integers(5, 250, (30, 40, 1)).astype(np.uint8)),
    "deep": Image(RNG.integers(0, 40000, (30, 40, 1)).astype(np.uint16)),
    "colour": Image(RNG.integers(0, 255, (30, 40, 3)).astype(np.uint8), colour=True),
    "fractions": Image(RNG.normal(0, 1, (30, 40, 1)).astype(np.float32)),
    "channels": Image(RNG.integers(-9, 2000, (30, 40, 5)).astype(np.int16)),
    "volume": Image(RNG.integers(-1000, 1000, (12, 10, 8, 1)).astype(np.int16), AFFINE),
    "4D": Image(RNG.normal(0, 1, (12, 10, 8, 2)).astype(np.float32), AFFINE),
}


@pytest.fixture
def written(tmp_path: Path) -> dict[str, Path]:
    return {name: write_image(image, tmp_path / name) for name, image in IMAGES.items()}


def get(path: Path) -> Image:
    return read([path], axis4="channels")


@pytest.mark.parametrize("how", ["blanked", "moved", "noise"])
def test_the_grid_and_type_of_a_file_stay(written: dict[str, Path], tmp_path: Path, how: str) -> None:
    before, headers = ({name: of(path) for name, path in written.items()} for of in (get, peek))
    alter({path.name: how for path in written.values()}, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in written.values())
    for name, path in written.items():
        old, new = before[name], get(path)
        assert peek(path) == headers[name]
        assert new.affine is old.affine is None or np.array_equal(new.affine, old.affine)
        assert not np.array_equal(new.array, old.array) and new.array.dtype.kind == old.array.dtype.kind
        if how != "blanked":
            assert old.array.min() <= new.array.min() and new.array.max() <= old.array.max()


def test_blank_images_hold_one_value_which_is_the_same_in_all(tmp_path: Path) -> None:
    dark = write_image(
        Image(np.full((8, 8, 1), 10, np.uint8) + np.eye(8, dtype=np.uint8)[..., None]), tmp_path / "dark"
    )
    light = write_image(Image(np.full((9, 7, 1), 90, np.uint8)), tmp_path / "light")
    alter({dark.name: "blanked", light.name: "blanked"}, tmp_path)
    assert {int(one) for path in (dark, light) for one in np.unique(get(path).array)} == {50}
    assert get(light).array.shape == (9, 7, 1)


def test_what_is_moved_is_moved_by_one_and_noise_stays_below_a_grey_level(tmp_path: Path) -> None:
    picture, real = IMAGES["grey"], IMAGES["fractions"]
    for name, image in (("grey", picture), ("noisy", picture), ("real", real)):
        write_image(image, tmp_path / name)
    alter({"grey.png": "moved", "noisy.png": "noise", "real.tif": "noise"}, tmp_path)
    array, found = picture.array, get(tmp_path / "grey.png").array
    four = [
        (found[1:], array[:-1]),
        (found[:-1], array[1:]),
        (found[:, 1:], array[:, :-1]),
        (found[:, :-1], array[:, 1:]),
    ]
    assert [np.array_equal(one, other) for one, other in four].count(True) == 1
    change = get(tmp_path / "noisy.png").array.astype(int) - array
    assert set(np.unique(change)) == {-1, 0, 1} and 0.15 < (change != 0).mean() < 0.35
    change = np.abs(get(tmp_path / "real.tif").array - real.array)
    assert 0 < change.max() <= np.ptp(real.array) / 512 * 1.001


def test_the_program_alters_views_in_a_folder_and_nothing_else(written: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    for number in range(2):
        shutil.copyfile(written["grey"], tmp_path / "views" / f"{number:03d}.png")
    subprocess.run(
        [sys.executable, "-P", "-m", "shared.dataset.intake.altered", '{"views": "blanked"}'],
        cwd=tmp_path, check=True, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, timeout=120,
    )  # fmt: skip
    assert np.ptp(get(tmp_path / "views" / "000.png").array) == np.ptp(get(tmp_path / "views" / "001.png").array) == 0
    assert np.array_equal(get(written["grey"]).array, IMAGES["grey"].array)
