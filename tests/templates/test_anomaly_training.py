"""Lesions in 3D (two channels) and 2D: trained, killed, gone on with, predicted from the package alone. One training a
dimension."""

import json
import re
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image

from shared.training.exported.package_cli import damage
from tests.templates import segbench
from tests.templates.forked import wait_for
from tests.templates.segbench import LESIONS, SegBench

pytestmark = pytest.mark.timeout(900)

EPOCHS = 12


@pytest.fixture(scope="module", params=[3, pytest.param(2, marks=pytest.mark.slow)], ids=["3D", "2D"])
def trained(request, tmp_path_factory) -> SegBench:
    """Killed with a checkpoint, then trained to its end."""
    bench = segbench.lesions(tmp_path_factory.mktemp("lesions"), request.param)
    bench.settings(
        model={"width": 8, "levels": 3},
        training={"epochs": EPOCHS, "patience": 0, "train_seconds": None, "save_seconds": 0},
    )
    process = bench.start("train.py")
    wait_for(process, lambda: list((bench.workspace / "checkpoints").glob("checkpoint-*/state.pt")))
    process.kill()
    assert not (bench.workspace / "metrics.json").exists()
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    (bench.folder / "output.txt").write_text(done.stdout)
    return bench


def dimensions_of(bench: SegBench) -> int:
    return 3 if "bleeding" in bench.values else 2


def test_a_killed_training_goes_on_and_counts_healthy_cases(trained: SegBench) -> None:
    output = (trained.folder / "output.txt").read_text()
    assert re.search(r"attempt 2 goes on from checkpoint-[1-9]", output)
    told = trained.metrics()
    assert told["attempts"] == 2 and told["epochs"] == EPOCHS and told["samples"] == {"train": 5, "val": 3}
    figures = told["metrics"]
    assert set(figures) == {"dice", "dice_lesion", "dice_healthy", *(f"dice {name}" for name in trained.names)}
    assert figures["dice_healthy"] in (0, 1) and told["metric_name"] == "dice" and figures["dice"] > 0.3
    package = trained.workspace / "package"
    assert damage(package) == []
    files = {file.relative_to(package).as_posix(): file for file in package.rglob("*.py")}
    assert {"predict.py", "package_cli.py", "model.py", "data.py", "imaging/case.py"} <= set(files)
    assert not [
        name
        for name, file in files.items()
        if re.search(r"^\s*(from|import) (shared|services)", file.read_text(), re.MULTILINE)
    ]
    config = json.loads((package / "config.json").read_text())
    assert config["task"] == "anomaly_detection" and config["model"]["network"] == "unet"
    how = config["preprocess"]
    assert how["dimensions"] == dimensions_of(trained) == len(how["patch_size"])
    assert how["channels"] == (2 if dimensions_of(trained) == 3 else 1)


def test_the_package_alone_keeps_grid_and_values_and_scores(trained: SegBench, tmp_path: Path) -> None:
    flat = dimensions_of(trained) == 2
    (tmp_path / "bad.png").write_bytes(b"no image")
    inputs = [trained.data / (f"p{number}.png" if flat else f"image{number}") for number in (5, 6, 7)]
    if flat:
        with Image.open(inputs[0]) as picture:
            picture.save(tmp_path / "again.jpg", quality=95)
        array = np.asarray(Image.open(inputs[0]))
        np.save(tmp_path / "array.npy", array)
        inputs += [tmp_path / "again.jpg", tmp_path / "array.npy"]
    done = trained.predict(tmp_path / "out", *inputs, tmp_path / "bad.png")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert found["task"] == "anomaly_detection" and found["label_values"] == LESIONS[dimensions_of(trained)]
    assert found["labels"] == trained.names and found["cases"][0]["input"] == inputs[0].name
    *cases, bad = found["cases"]
    assert set(bad) == {"input", "error"} and all(set(case) == {"input", "mask", "score"} for case in cases)
    suffixes = [case["score"].partition(".")[2] for case in cases]
    assert suffixes == (["png"] * 5 if flat else ["nii.gz"] * 3)
    (judge_pictures if flat else judge_volumes)(trained, tmp_path / "out", cases)


def judge_pictures(bench: SegBench, out: Path, cases: list[dict[str, str]]) -> None:
    for case in cases[:4]:
        mask, score = np.asarray(Image.open(out / case["mask"])), np.asarray(Image.open(out / case["score"]))
        assert mask.shape == score.shape == (40, 48) and mask.dtype == np.uint8 and score.dtype == np.uint16
        assert set(np.unique(mask)) <= {0, 7, 200}
        # Two kinds of lesions: where their sum is below a half, background is the largest.
        assert (score[mask == 0] / 65535 < 0.67).all() and (score[mask > 0] / 65535 > 0.49).all()
    truth = np.asarray(Image.open(bench.data / "mask5.png"))
    found = np.asarray(Image.open(out / cases[0]["mask"]))
    assert 2 * ((found > 0) & (truth > 0)).sum() / ((found > 0).sum() + (truth > 0).sum()) > 0.3
    same = [np.asarray(Image.open(out / cases[number]["score"])) for number in (0, 4)]
    np.testing.assert_array_equal(*same)


def judge_volumes(bench: SegBench, out: Path, cases: list[dict[str, str]]) -> None:
    for number, case in zip((5, 6, 7), cases, strict=True):
        image = nibabel.load(bench.data / f"image{number}/0_t1.nii.gz")
        mask, score = nibabel.load(out / case["mask"]), nibabel.load(out / case["score"])
        for answer in (mask, score):
            assert answer.shape == image.shape
            np.testing.assert_allclose(answer.affine, image.affine, atol=1e-5)
        values, chances = np.asanyarray(mask.dataobj), np.asanyarray(score.dataobj)
        assert chances.dtype == np.float32 and set(np.unique(values)) <= {0, 5}
        np.testing.assert_array_equal(values > 0, chances > 0.5)
    # In world space: the mask lies where the brightest voxels of the image are, whatever the file's axes.
    mask, truth = nibabel.load(out / cases[0]["mask"]), nibabel.load(bench.data / "mask5.nii.gz")
    middles = [
        nibabel.affines.apply_affine(found.affine, np.argwhere(np.asanyarray(found.dataobj) == 5)).mean(0)
        for found in (mask, truth)
    ]
    assert np.linalg.norm(middles[0] - middles[1]) < 8
