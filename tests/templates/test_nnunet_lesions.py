"""nnU-Net on lesions: healthy images without any, several channels in 3D, pictures in 2D, score maps."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

from shared.training import dice
from shared.training.exported.package_cli import damage
from tests.templates import segbench
from tests.templates.segbench import LESIONS, SegBench

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", params=[3, 2], ids=["3D", "2D"])
def trained(request, tmp_path_factory) -> SegBench:
    bench = segbench.lesions(tmp_path_factory.mktemp("lesions"), request.param, "nnunet")
    bench.settings(
        nnunet={"epochs": 2, "iterations": 4, "memory_gb": 0.03, "features": 4, "learning_rate": 0.05},
        training={"train_seconds": None},
    )
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    return bench


def values_of(path: Path) -> np.ndarray:
    if path.suffix == ".png":
        return np.asarray(Image.open(path))
    return np.asanyarray(nibabel.load(path).dataobj)


def as_classes(mask: np.ndarray, values: dict[str, int]) -> np.ndarray:
    return np.sum([number * (mask == value) for number, value in enumerate(values.values(), 1)], axis=0)


def test_lesions_and_healthy_images_are_trained_on_and_measured(trained: SegBench) -> None:
    told = trained.metrics()
    assert (
        told["network"].startswith("nnU-Net v2") and told["epochs"] == 2 and told["samples"] == {"train": 5, "val": 3}
    )
    names = {f"dice {name}" for name in trained.names}
    assert set(told["metrics"]) == {"dice", "dice_lesion", "dice_healthy", *names}
    assert told["metrics"]["dice_healthy"] in (0, 1)
    package = trained.workspace / "package"
    assert damage(package) == []
    config = json.loads((package / "config.json").read_text())
    assert config["task"] == "anomaly_detection" and config["score_map"] is True
    flat = "nodule" in trained.values
    assert config["configuration"] == ("2d" if flat else "3d_fullres")
    assert len(config["dataset"]["channel_names"]) == (1 if flat else 2)
    fold = trained.note("cache/nnunet/preprocessed/Dataset001_structures/splits_final.json")
    assert [(len(part["train"]), len(part["val"])) for part in fold] == [(5, 3)]


def test_masks_and_score_maps_lie_on_the_grids_of_their_images(trained: SegBench, tmp_path: Path) -> None:
    flat = "nodule" in trained.values
    inputs = [trained.data / (f"p{number}.png" if flat else f"image{number}") for number in (5, 6, 7)]
    done = trained.predict(tmp_path / "out", *inputs, trained.data / "mask5.png")
    assert done.returncode == 0, done.stdout + done.stderr
    *cases, bad = trained.cases(tmp_path / "out")
    assert "error" in bad or flat  # one channel in 3D is an error; in 2D a mask is a picture
    values = LESIONS[2 if flat else 3]
    scores = []
    for number, case in zip((5, 6, 7), cases, strict=True):
        assert set(case) == {"input", "mask", "score"}, case
        mask, chances = values_of(tmp_path / "out" / case["mask"]), values_of(tmp_path / "out" / case["score"])
        truth = values_of(trained.data / f"mask{number}.{'png' if flat else 'nii.gz'}")
        assert mask.shape == chances.shape == truth.shape and mask.dtype.kind in "iu"
        assert set(np.unique(mask)) <= {0, *values.values()}
        assert chances.dtype == (np.uint16 if flat else np.float32)
        chances = chances / (65535 if flat else 1)
        assert 0 <= chances.min() < chances.max() <= 1
        if flat:
            assert (chances[mask == 0] < 0.67).all() and (chances[mask > 0] > 0.49).all()
        else:
            np.testing.assert_array_equal(mask > 0, chances > 0.5)
            image = nibabel.load(inputs[0] / "0_t1.nii.gz")
            for answer in (case["mask"], case["score"]):
                np.testing.assert_allclose(nibabel.load(tmp_path / "out" / answer).affine, image.affine, atol=1e-5)
        scores.append(dice.score_case(as_classes(mask, values), as_classes(truth, values), len(values)))
    # What the package finds is what was measured.
    again = dice.summary(scores, list(values))
    for name, value in trained.metrics()["metrics"].items():
        assert again[name] == (None if value is None else pytest.approx(value, abs=2e-3)), name
