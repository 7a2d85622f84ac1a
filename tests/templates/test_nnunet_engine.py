"""The nnU-Net template: its planner and trainer, our split, time, checkpoints and grid."""

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from PIL import Image

from shared.contracts.training import JobProgress
from shared.imaging import case as images
from shared.imaging.volume import channels_first, spacing_dhw
from shared.training.exported.package_cli import damage
from tests.templates.forked import wait_for
from tests.templates.segbench import (
    ORIENTATIONS,
    SegBench,
    bright_blocks,
    killed_anywhere,
    modules,
    overlays,
    torn_after,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

VALUES = {"organ": 3, "vessel": 28}
CONFIG: dict[str, Any] = {
    "nnunet": {"epochs": 3, "iterations": 3, "memory_gb": 0.03, "features": 4, "save_seconds": 0},
    "training": {"train_seconds": None},
}


class Scans(SegBench):
    """Six oblique scans of different orientation; only four have both structures in training."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "nnunet")
        self.values, self.names = VALUES, list(VALUES)
        self.rows = [self.scan(number) for number in range(6)]
        self.configure()
        self.write()

    @property
    def saved(self) -> Path:
        return self.workspace / "checkpoints" / "nnunet"

    def configure(self, **nnunet: object) -> None:  # type: ignore[override]
        self.settings(**CONFIG | {"nnunet": CONFIG["nnunet"] | nnunet})

    def scan(self, number: int) -> dict[str, Any]:
        generator = np.random.default_rng(number)
        image, mask = generator.normal(100, 10, (24, 28, 20)), np.zeros((24, 28, 20))
        i, j, k = generator.integers(1, 4, 3)
        mask[i : i + 10, j : j + 12, k : k + 8] = 3
        if number != 4:
            mask[i + 11 : i + 20, j + 13 : j + 24, k + 8 : k + 16] = 28
        image += 120 * (mask == 3) - 80 * (mask == 28)
        name = f"s{number}"
        nibabel.save(nibabel.Nifti1Image(image.astype(np.int16), affine(number)), self.data / f"{name}.nii.gz")
        # As many annotation tools write them: whole numbers as float64.
        nibabel.save(nibabel.Nifti1Image(mask, affine(number)), self.data / f"{name}_mask.nii.gz")
        files = {"files": [f"{name}.nii.gz"], "target": f"{name}_mask.nii.gz"}
        return {"sample_id": name, "patient": f"p{number}", **files, "split": "val" if number >= 4 else "train"}

    def names_saved(self) -> list[str]:
        return sorted(path.name for path in self.saved.glob("checkpoint-*"))


def epoch_of(checkpoint: Path) -> int:
    return int(torch.load(checkpoint / "state.pt", weights_only=True)["epoch"])


def affine(number: int) -> np.ndarray:
    """Oblique; every second scan has its axes exchanged and mirrored."""
    angle = np.deg2rad(8 + number)
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    axes = np.array([[0, -1, 0], [1, 0, 0], [0, 0, -1]]) if number % 2 else np.eye(3)
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = turn @ axes @ np.diag([1.2, 1.0, 1.5]), [-30, 20, 5.5]
    return made


def dice(found: np.ndarray, truth: np.ndarray) -> float:
    scores = [
        2 * ((found == value) & (truth == value)).sum() / ((found == value).sum() + (truth == value).sum())
        for value in VALUES.values()
        if (found == value).any() or (truth == value).any()
    ]
    return float(np.mean(scores))


def voxels(path: Path) -> np.ndarray:
    return np.asanyarray(nibabel.load(path).dataobj)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Scans:
    """Killed several times, with a torn checkpoint after it as a power cut might leave it, then finished."""
    bench = Scans(tmp_path_factory.mktemp("nnunet"))
    bench.configure(epochs=1000)
    newest = killed_anywhere(bench, bench.saved, 3, epoch_of)
    torn_after(newest, "state.pt")
    bench.configure(epochs=epoch_of(newest) + 1)
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    (bench.workspace / "output.txt").write_text(done.stdout + f"newest {newest.name}, epoch {epoch_of(newest)}\n")
    return bench


def test_training_killed_anywhere_goes_on_and_leaves_what_it_promises(trained: Scans) -> None:
    output = (trained.workspace / "output.txt").read_text()
    assert "checkpoint-999999 is passed over: it does not load" in output
    found = re.search(r"newest (checkpoint-\d+), epoch (\d+)", output)
    assert found and f" goes on from {found.group(1)}\n" in output
    made = int(found.group(2)) + 1
    metrics = trained.note("metrics.json")
    assert metrics["attempts"] >= 3 and metrics["epochs"] == made and metrics["iterations"] == 3 * made
    assert metrics["metric_name"] == "dice" and set(metrics["metrics"]) == {"dice", "dice organ", "dice vessel"}
    assert metrics["samples"] == {"train": 4, "val": 2} and metrics["parameters"] > 0
    lines = [json.loads(line) for line in (trained.workspace / "progress.jsonl").read_text().splitlines()]
    for line in lines:
        JobProgress.model_validate({"run_id": "r", "job_id": "j", **line})
    epochs = [line["epoch"] for line in lines]
    assert set(epochs) == set(range(1, made + 1)) and epochs.count(1) == 1 and epochs[-1] == made
    assert damage(trained.workspace / "package") == []
    assert trained.note("package/label_map.json") == {"names": ["organ", "vessel"], "values": VALUES}


def test_dataset_of_nnunet_has_our_fold_classes_and_geometry(trained: Scans) -> None:
    cache = trained.workspace / "cache" / "nnunet"
    (fold,) = json.loads((cache / "preprocessed/Dataset001_structures/splits_final.json").read_text())
    assert len(fold["train"]) == 4 and len(fold["val"]) == 2
    raw = cache / "raw/Dataset001_structures"
    images = sorted((raw / "imagesTr").iterdir())
    with modules("nnunet", "cases") as template:
        numbers = {template.cases.case_name(row): number for number, row in enumerate(trained.rows)}
    assert len(images) == 6
    for image in images:
        number = numbers[image.name.removesuffix("_0000.nii.gz")]
        np.testing.assert_array_equal(voxels(image), voxels(trained.data / f"s{number}.nii.gz"))
        mask = nibabel.load(raw / "labelsTr" / image.name.replace("_0000", ""))
        np.testing.assert_allclose(mask.affine, affine(number), atol=1e-5)
        assert mask.get_data_dtype() == np.uint8
        truth = voxels(trained.data / f"s{number}_mask.nii.gz")
        np.testing.assert_array_equal(np.asanyarray(mask.dataobj), (truth == 3) + 2 * (truth == 28))
        assert (image.name[:-12] in fold["val"]) == (number >= 4)


def test_package_keeps_grid_and_values_and_has_the_stated_dice(trained: Scans, tmp_path: Path) -> None:
    """As a stranger runs it: `python -I`, no environment; a bad input costs only itself."""
    (tmp_path / "noise.nii.gz").write_bytes(b"no image")
    channels = tmp_path / "folder"
    channels.mkdir()
    shutil.copy(trained.data / "s5.nii.gz", channels / "any_0000.nii.gz")
    inputs = [trained.data / "s4.nii.gz", trained.data / "s5.nii.gz", tmp_path / "noise.nii.gz", channels]
    done = trained.predict(tmp_path / "out", *inputs)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert found["task"] == "organ_segmentation" and found["labels"] == ["organ", "vessel"]
    assert found["label_values"] == VALUES
    assert [case["input"] for case in found["cases"]] == ["s4.nii.gz", "s5.nii.gz", "noise.nii.gz", "folder"]
    assert set(found["cases"][2]) == {"input", "error"} and "noise.nii.gz" in done.stderr
    assert found["cases"][3]["mask"] == "folder.nii.gz"
    scores = []
    for number in (4, 5):
        mask = nibabel.load(tmp_path / "out" / found["cases"][number - 4]["mask"])
        image = nibabel.load(trained.data / f"s{number}.nii.gz")
        assert mask.shape == image.shape and mask.get_data_dtype().kind in "iu"
        np.testing.assert_allclose(mask.affine, image.affine, atol=1e-6)
        values = np.asanyarray(mask.dataobj)
        assert set(np.unique(values)) <= {0, 3, 28}
        scores.append(dice(values, voxels(trained.data / f"s{number}_mask.nii.gz")))
    np.testing.assert_array_equal(voxels(tmp_path / "out/folder.nii.gz"), voxels(tmp_path / "out/s5.nii.gz"))
    assert np.mean(scores) == pytest.approx(trained.note("metrics.json")["metrics"]["dice"], abs=2e-3)


def test_the_probe_runs_what_trains_and_an_edited_plan_is_followed(tmp_path: Path) -> None:
    """Batches, network and loss are the trainer's own, on the plan that stands in the workspace."""
    bench = Scans(tmp_path)
    done = bench.run("train.py", "--config", "config.yaml", "--plan")
    assert done.returncode == 0 and not (bench.workspace / "package").exists(), done.stdout + done.stderr
    plans = bench.note("plans.json")
    planned = plans["configurations"]["3d_fullres"]["patch_size"]
    plans["configurations"]["3d_fullres"] |= {"patch_size": [16, 16, 16], "batch_size": 3}
    assert planned != [16, 16, 16]
    (bench.workspace / "plans.json").write_text(json.dumps(plans))
    facts = bench.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert facts["ok"], facts
    assert facts["batches"]["train"]["shape"] == [4, 1, 16, 16, 16] == facts["batches"]["val"]["shape"]
    assert facts["forward"]["logits_shape"] == [4, 3, 16, 16, 16] and facts["forward"]["gradients"]
    assert facts["counts"] == {"train": 4, "val": 2} and facts["batches"]["train"]["labels"]["organ"] > 0
    assert facts["built"]["model"].startswith("nnU-Net v2 3d_fullres, ") and "DC_and_CE_loss" in facts["built"]["loss"]
    assert "SpatialTransform" in facts["built"]["augmentation"]
    assert not (bench.workspace / "package").exists() and bench.note("plans.json") == plans
    bench.configure(epochs=1)
    done = bench.train()
    assert done.returncode == 0 and "plans.json was edited and is followed" in done.stdout, done.stdout + done.stderr
    assert bench.metrics()["input_shape"] == [1, 16, 16, 16] and bench.note("package/config.json")["plans"] == plans
    (bench.data / "s1_mask.nii.gz").write_bytes((bench.data / "s0_mask.nii.gz").read_bytes())
    facts = bench.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert set(facts["bad_samples"]) == {"s1"}, facts


def test_another_training_begins_anew_and_keeps_the_checkpoints_of_the_one_before(tmp_path: Path) -> None:
    bench = Scans(tmp_path)
    bench.configure(epochs=1)
    assert bench.train().returncode == 0
    before = bench.names_saved()
    bench.configure(epochs=1, learning_rate=0.02)
    done = bench.train()
    assert done.returncode == 0 and "this training begins anew" in done.stdout, done.stdout + done.stderr
    assert sorted(path.name for path in (bench.saved / "previous").glob("checkpoint-*")) == before
    assert bench.metrics()["attempts"] == 1 and bench.metrics()["epochs"] == 1


def test_a_training_ends_in_its_time_with_its_rate_at_zero(tmp_path: Path) -> None:
    """Epochs are bounded by time alone: each a twentieth of it."""
    bench = Scans(tmp_path)
    bench.settings(**CONFIG | {"nnunet": CONFIG["nnunet"] | {"epochs": "auto", "iterations": "auto"}}
                   | {"training": {"train_seconds": 60}})  # fmt: skip
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    told = bench.metrics()
    assert 1 < told["epochs"] < 40 and told["iterations"] < 250 * told["epochs"]
    state = torch.load(bench.saved / bench.names_saved()[-1] / "state.pt", weights_only=True)
    assert state["done"] and state["optimizer"]["param_groups"][0]["lr"] < 0.005


def test_faults_of_masks_are_told_together_before_training(tmp_path: Path) -> None:
    bench = Scans(tmp_path)
    good = nibabel.load(bench.data / "s0_mask.nii.gz")
    values = np.asanyarray(good.dataobj)
    nibabel.save(nibabel.Nifti1Image(values + 4 * (values == 3), good.affine), bench.data / "s0_mask.nii.gz")
    nibabel.save(nibabel.Nifti1Image(values[:-1], good.affine), bench.data / "s1_mask.nii.gz")
    nibabel.save(nibabel.Nifti1Image(values * 0.5, good.affine), bench.data / "s2_mask.nii.gz")
    shifted = affine(3)
    shifted[:3, 3] += 50
    nibabel.save(nibabel.Nifti1Image(voxels(bench.data / "s3_mask.nii.gz"), shifted), bench.data / "s3_mask.nii.gz")
    done = bench.train()
    output = done.stderr
    assert done.returncode == 2, done.stdout + output
    for number, word in enumerate(("7", "voxels", "whole", "elsewhere")):
        assert any(line.startswith(f"- s{number}: ") and word in line for line in output.splitlines()), output
    left = {item.name for item in bench.workspace.iterdir()}
    assert not left & {"checkpoints", "metrics.json", "package", "progress.jsonl"}


def test_pictures_are_two_dimensional_in_the_part_of_the_index_and_sigterm_saves(tmp_path: Path) -> None:
    bench = Scans(tmp_path)
    for number, row in enumerate(bench.rows):
        for field in ("files", "target"):
            name = row["files"][0] if field == "files" else row["target"]
            plane = voxels(bench.data / name)[:, :, 10].astype(np.uint8)
            picture = name.replace(".nii.gz", ".png")
            Image.fromarray(plane).save(bench.data / picture)
            row[field] = [picture] if field == "files" else picture
        # Two pictures a patient.
        row["patient"], row["split"] = f"patient {number // 2}", "val" if number // 2 == 0 else "train"
    bench.write()
    bench.settings(**CONFIG | {"nnunet": CONFIG["nnunet"] | {"epochs": 1000}})
    process = bench.start("train.py")
    wait_for(process, bench.names_saved)
    process.send_signal(signal.SIGTERM)
    assert process.wait(280) == 128 + signal.SIGTERM
    assert bench.names_saved() and not (bench.workspace / "package").exists()
    bench.settings(**CONFIG | {"nnunet": CONFIG["nnunet"] | {"epochs": 1}})
    done = bench.train()
    assert done.returncode == 0 and "attempt 2 goes on from" in done.stdout, done.stdout + done.stderr
    config = bench.note("package/config.json")
    assert config["configuration"] == "2d" and config["plans"]["image_reader_writer"] == "NaturalImage2DIO"
    (fold,) = bench.note("cache/nnunet/preprocessed/Dataset001_structures/splits_final.json")
    raw = bench.workspace / "cache/nnunet/raw/Dataset001_structures/imagesTr"
    with modules("nnunet", "cases") as template:
        case_name = template.cases.case_name
    whose = {case_name(row): row["patient"] for row in bench.rows}
    assert len(list(raw.iterdir())) == 6 and len(fold["train"]) == 4 and len(fold["val"]) == 2
    assert {whose[name] for name in fold["val"]} == {"patient 0"}
    done = bench.predict(tmp_path / "out", bench.data / "s5.png")
    assert done.returncode == 0, done.stderr
    mask = np.asarray(Image.open(tmp_path / "out" / "s5.png"))
    assert mask.shape == (24, 28) and set(np.unique(mask)) <= {0, 3, 28}


@pytest.mark.parametrize("name", ORIENTATIONS)
def test_training_and_prediction_see_an_image_alike_and_masks_overlay_it(trained: Scans, tmp_path: Path, name) -> None:
    """Read by nnU-Net and by the package: the same voxels and spacing. What a network that only compares values finds
    lies in the world where the image has it."""
    from nnunetv2.imageio.nibabel_reader_writer import NibabelIOWithReorient

    path, image, grid = bright_blocks(tmp_path, name)
    scan = images.load_image([path])
    seen, about = NibabelIOWithReorient().read_images([str(path)])
    np.testing.assert_array_equal(seen, channels_first(scan))
    np.testing.assert_allclose(about["spacing"], spacing_dhw(scan), rtol=1e-5)

    # Half way between the levels, as nnU-Net normalises them.
    low, high = (np.array([-25, 75]) - image.mean()) / image.std()

    def fill(network: torch.nn.Module) -> None:
        network.forward = lambda voxels: torch.cat(
            [0 * voxels, 40 * (voxels - low), 40 * (voxels - low) + 40 * (voxels - high)], 1
        )

    with modules("nnunet", "predict") as template:
        engine = template.predict.Engine(trained.note("package/config.json"), fill, "cpu")
    found, chances = engine.segment(scan, True)
    values = np.array([0, 3, 28])[found]
    mask = nibabel.load(tmp_path / images.write_mask(scan, values, tmp_path, "mask"))
    overlays(mask, image, grid, {3: 50, 28: 100})
    assert chances is not None and chances.shape == image.shape
    assert (chances[found == 0] < 0.67).all() and (chances[found > 0] > 0.49).all()
