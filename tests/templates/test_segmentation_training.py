"""The segmentation template trains unedited, leaves what it promises, and survives being killed."""

import json
import re
import signal
import subprocess
import sys

import nibabel
import numpy as np
import pytest
from PIL import Image

from shared.contracts.training import JobProgress
from shared.training.exported.package_cli import damage
from shared.training.saved import load
from tests.templates.forked import wait_for
from tests.templates.segbench import killed_anywhere, torn_after

pytestmark = pytest.mark.timeout(900)

PACKAGE = {
    "model.safetensors",
    "config.json",
    "label_map.json",
    "predict.py",
    "package_cli.py",
    "segmenting.py",
    "imaging",
    "data.py",
    "model.py",
    "monai_parts.py",
    "metadata.json",
    "environment.txt",
    "MODEL_CARD.md",
    "SHA256SUMS",
}


@pytest.mark.slow
def test_segmentation_smoke_by_command_line(organs):
    """In an interpreter of its own, as are its predictions."""
    before = set(organs.workspace.iterdir())
    command = [sys.executable, "train.py", "--smoke", "3d"]
    done = subprocess.run(command, cwd=organs.workspace, env=organs.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "smoke test passed (3d) after" in done.stdout
    assert {item.name for item in set(organs.workspace.iterdir()) - before} <= {"__pycache__"}


def test_it_leaves_package_progress_and_metrics(trained_masks):
    package = trained_masks.workspace / "package"
    assert {item.name for item in package.iterdir()} == PACKAGE
    assert damage(package) == []
    assert json.loads((package / "label_map.json").read_text()) == {
        "names": ["ball", "dark block"],
        "values": {"ball": 28, "dark block": 3},
    }
    how = json.loads((package / "config.json").read_text())["preprocess"]
    assert how["intensity"] == "ct" and how["dimensions"] == 3 and how["channels"] == 1
    # Stored as z, -x, y in 3, 2 and 2.5 mm: D, H, W are the first, third and second axis.
    np.testing.assert_allclose(how["spacing"], (3.0, 2.5, 2.0), rtol=1e-3)
    metrics = trained_masks.metrics()
    assert metrics["split"] == "val" and metrics["samples"] == {"train": 4, "val": 2}
    assert set(metrics["metrics"]) == {"dice", "dice ball", "dice dark block"}
    assert metrics["metric_name"] == "dice" and 0 <= metrics["metric"] <= 1
    assert metrics["epochs"] == 6 and metrics["weights"] in ("best", "last", "averaged")
    lines = trained_masks.progress()
    for line in lines:
        JobProgress.model_validate({"run_id": "r", "job_id": "j", **line})
    assert any(line.get("metric_name") == "dice" for line in lines)
    card = (package / "MODEL_CARD.md").read_text()
    assert "Network: UNet, " in card and "Loss: OverlapAndEntropy(" in card and "RandAffined" in card
    assert "| ball | 4 | 2 |" in card and "ball (value 28)" in card and f"{metrics['metric']:.3f}" in card
    output = json.loads((package / "metadata.json").read_text())["network_data_format"]["outputs"]["pred"]
    assert output["channel_def"] == {"0": "background", "1": "ball", "2": "dark block"}


def pictures(bench, count):
    """PNG pictures of two channels with a bright disc, marked 7 in a PNG mask."""
    generator = np.random.default_rng(0)
    bench.values, bench.names = {"disc": 7}, ["disc"]
    rows, columns = np.mgrid[:48, :40]
    for number in range(count):
        disc = (rows - generator.integers(14, 34)) ** 2 + (columns - generator.integers(12, 28)) ** 2 < 60
        for channel in (0, 1):
            plane = generator.normal(90, 15, disc.shape) + (100 if channel else 30) * disc
            name = f"p{number}_{channel}.png"
            Image.fromarray(np.clip(plane, 0, 255).astype(np.uint8)).save(bench.data / name)
        Image.fromarray((disc * 7).astype(np.uint8)).save(bench.data / f"mask{number}.png")
        files = [f"p{number}_0.png", f"p{number}_1.png"]
        split = "val" if number >= count * 2 // 3 else "train"
        bench.add(f"p{number}", files, None, split, target=f"mask{number}.png")


def epoch_of(checkpoint):
    return load(checkpoint)["epoch"]


@pytest.mark.slow
def test_training_killed_anywhere_goes_on_and_segments_2d_channels(organs, tmp_path):
    pictures(organs, 6)
    organs.write()
    wanted = {"epochs": 4000, "patience": 0, "save_seconds": 0}
    network = {"model": {"width": 8, "levels": 3}}
    organs.settings(**network, training=wanted | {"train_seconds": None})
    newest = killed_anywhere(organs, organs.workspace / "checkpoints", 3, epoch_of)
    torn = torn_after(newest, "state.pt")
    # Time is no part of what makes it another training, a try's neither: it ends after a step.
    organs.settings(**network, training=wanted | {"train_seconds": 1, "whole_seconds": 500})
    done = organs.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checkpoint-999999 is passed over: it does not load" in done.stdout and not torn.exists()
    found = re.search(rf"attempt (\d) goes on from {newest.name}\n", done.stdout)
    # A process that is killed before it opens the checkpoints is no attempt.
    assert found and 3 <= int(found.group(1)) <= 4 and organs.metrics()["attempts"] == int(found.group(1))
    assert organs.metrics()["epochs"] >= epoch_of(newest)
    # A folder with a file a channel; what else lies beside them is no channel.
    case = tmp_path / "case_1"
    case.mkdir()
    for channel in (0, 1):
        (case / f"00{channel}.png").write_bytes((organs.data / f"p5_{channel}.png").read_bytes())
    (case / "notes.json").write_text("{}")
    single = organs.data / "p5_0.png"
    done = organs.predict(tmp_path / "out", case, single)
    assert done.returncode == 0, done.stderr
    first, second = organs.cases(tmp_path / "out")
    assert first == {"input": "case_1", "mask": "case_1.png"}
    assert second["input"] == "p5_0.png" and "1 channel" in second["error"]
    mask = np.asarray(Image.open(tmp_path / "out" / "case_1.png"))
    assert mask.shape == (48, 40) and mask.dtype == np.uint8 and set(np.unique(mask)) <= {0, 7}
    # Another configuration is another training; it says so, and nothing of the earlier one is lost.
    kept = {path.name for path in (organs.workspace / "checkpoints").glob("checkpoint-*")}
    organs.settings(**network, training=wanted | {"train_seconds": 1, "learning_rate": 0.001})
    done = organs.train()
    assert done.returncode == 0 and "the checkpoints of the earlier one are kept in checkpoints/previous" in done.stdout
    assert organs.metrics()["attempts"] == 1
    assert kept == {path.name for path in (organs.workspace / "checkpoints/previous").glob("checkpoint-*")}


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_sigterm_saves_a_segmentation_and_it_goes_on(organs, processes):
    organs.organs(3)
    organs.write()
    network = {"model": {"width": 8, "levels": 2}}
    wanted = {"epochs": 4000, "patience": 0, "processes": processes}
    organs.settings(**network, training=wanted | {"train_seconds": None})
    checkpoints = organs.workspace / "checkpoints"
    process = organs.start("train.py")
    wait_for(process, (checkpoints / "best" / "best.json").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(900) == 128 + signal.SIGTERM
    newest = max(checkpoints.glob("checkpoint-*"), key=epoch_of)
    assert not (organs.workspace / "package").exists()
    organs.settings(**network, training=wanted | {"train_seconds": 1})
    done = organs.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"attempt 2 goes on from {newest.name}\n" in done.stdout
    assert organs.metrics()["attempts"] == 2 and organs.metrics()["epochs"] >= epoch_of(newest)


def test_package_alone_keeps_grid_values_and_goes_on_after_a_bad_input(trained_masks, tmp_path):
    image = nibabel.load(trained_masks.data / "image5.nii.gz")
    scan = tmp_path / "scan.nii"
    header = image.header.copy()
    header.set_qform(image.affine, code="scanner")
    header.set_sform(image.affine, code="mni")
    nibabel.save(nibabel.Nifti1Image(np.asanyarray(image.dataobj), image.affine, header), scan)
    folder = tmp_path / "case_7"
    folder.mkdir()
    (folder / "000.nii.gz").write_bytes((trained_masks.data / "image5.nii.gz").read_bytes())
    (folder / "notes.json").write_text("{}")
    (tmp_path / "bad.nii.gz").write_bytes(b"nothing of the kind")
    np.save(tmp_path / "array.npy", np.asanyarray(image.dataobj).transpose(0, 2, 1))
    inputs = [scan, tmp_path / "bad.nii.gz", folder, tmp_path / "array.npy"]
    done = trained_masks.predict(tmp_path / "out", *inputs)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out/predictions.json").read_text())
    cases = found["cases"]
    assert found["task"] == "organ_segmentation" and found["labels"] == ["ball", "dark block"]
    assert found["label_values"] == {"ball": 28, "dark block": 3}
    assert [case["input"] for case in cases] == ["scan.nii", "bad.nii.gz", "case_7", "array.npy"]
    assert [case.get("mask") for case in cases] == ["scan.nii.gz", None, "case_7.nii.gz", "array.nii.gz"]
    assert "bad.nii.gz cannot be read" in cases[1]["error"]
    masks = {name: nibabel.load(tmp_path / "out" / name) for name in ("scan.nii.gz", "case_7.nii.gz", "array.nii.gz")}
    for mask in masks.values():
        assert mask.get_data_dtype().kind in "iu" and set(np.unique(np.asanyarray(mask.dataobj))) <= {0, 3, 28}
    mask = masks["scan.nii.gz"]
    assert mask.shape == image.shape
    np.testing.assert_allclose(mask.affine, image.affine, atol=1e-4)
    np.testing.assert_array_equal(np.asanyarray(mask.dataobj), np.asanyarray(masks["case_7.nii.gz"].dataobj))
    # An array is (D, H, W), a NIfTI (x, y, z).
    assert masks["array.nii.gz"].shape == (20, 12, 24)
    # In world space the mask lies on what it names: its voxels are the bright and the dark ones of the image.
    truth = np.asanyarray(nibabel.load(trained_masks.data / "mask5.nii.gz").dataobj)
    answer = np.asanyarray(mask.dataobj)
    scores = [2 * ((answer == v) & (truth == v)).sum() / ((answer == v).sum() + (truth == v).sum()) for v in (28, 3)]
    assert min(scores) > 0.3


def test_a_series_and_its_canonical_copy_get_the_same_mask(trained_masks, tmp_path):
    """Each on its own grid: the series in its scanner's axes, the copy in RAS+."""
    from shared.imaging.masks import on_image, read_label_map
    from shared.imaging.volume import read
    from shared.imaging.write import write_image
    from tests.imaging.make import oblique as tilted
    from tests.imaging.make import series

    values = np.asanyarray(nibabel.load(trained_masks.data / "image5.nii.gz").dataobj).astype(int)
    files = series(tmp_path / "series", (values + 2048).astype(np.uint16), tilted(), RescaleIntercept=-2048)
    image = read(files)
    copy = write_image(image, tmp_path / "copy")
    done = trained_masks.predict(tmp_path / "out", tmp_path / "series", copy)
    assert done.returncode == 0, done.stderr
    labels, grid = read_label_map(tmp_path / "out" / "series.nii.gz")
    assert labels.shape == image.array.shape[:3] and (labels == 28).any()
    other = on_image(*read_label_map(tmp_path / "out" / "copy.nii.gz"), image, "copy")
    np.testing.assert_array_equal(other, on_image(labels, grid, image, "series"))


@pytest.mark.slow
def test_two_processes_train_as_one_and_the_first_writes(organs):
    organs.organs(6)
    organs.write()
    network = {"model": {"width": 8, "levels": 3}}
    organs.settings(**network, training={"epochs": 6, "patience": 0, "train_seconds": None, "processes": 2})
    done = organs.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on 2 processes; 6 epochs fit" in done.stdout and done.stdout.count("epoch 6/6") == 1
    told = organs.metrics()
    assert told["epochs"] == 6 and told["attempts"] == 1 and told["samples"] == {"train": 4, "val": 2}
    assert told["metric"] > 0.3
    # Four patches of each of four images: eight batches of one for each process.
    assert max(line.get("step", 0) for line in organs.progress()) == 48
    assert len(list((organs.workspace / "cache").glob("*.npy"))) == 6
    best = organs.note("checkpoints/best/best.json")
    assert {round(line["metric"], 4) for line in organs.progress() if "text" not in line and "metric" in line} >= {
        round(best["metric"], 4)
    }
    assert damage(organs.workspace / "package") == []


@pytest.mark.slow
def test_weights_of_an_attempt_that_looked_at_other_images_are_measured_anew(organs):
    """Its figure of fewer images would keep everything out that comes later."""
    organs.organs(6)
    organs.write()
    organs.configure(epochs=2, width=8, levels=3)
    assert organs.train().returncode == 0
    best = organs.workspace / "checkpoints/best/best.json"
    before = json.loads(best.read_text())
    for images, believed in ((before["images"], True), (before["images"] + 1, False)):
        best.write_text(json.dumps(before | {"metric": 0.999, "images": images}))
        done = organs.train()
        assert done.returncode == 0, done.stdout + done.stderr
        assert (json.loads(best.read_text())["metric"] == 0.999) is believed
