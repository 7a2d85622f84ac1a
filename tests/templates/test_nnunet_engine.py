"""The nnU-Net engine of the segmentation template: its planner and trainer, our split, time, checkpoints and grid."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from PIL import Image

from shared.contracts.training import JobProgress
from shared.trainkit.package import checksum_faults

# Each process imports torch and nnU-Net: seconds when the machine is quiet, minutes when it is not.
pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parents[2]
VALUES = {"organ": 3, "vessel": 28}
CONFIG: dict[str, Any] = {
    "engine": "nnunet",
    "nnunet": {"epochs": 3, "iterations": 3, "memory_gb": 0.03, "features": 4, "save_seconds": 0},
    "training": {"train_seconds": None},
}


class Bench:
    """A build workspace with six oblique scans of different orientation; only four have both structures in training."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.data = folder / "workspace", folder / "data"
        shutil.copytree(ROOT / "templates/organ_segmentation", self.workspace, ignore=shutil.ignore_patterns("__py*"))
        self.data.mkdir()
        self.rows = [self.scan(number) for number in range(6)]
        self.configure()
        self.write()

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

    def write(self) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in self.rows)
        (self.workspace / "train_index.jsonl").write_text(lines)
        (self.workspace / "label_map.json").write_text(json.dumps({"names": list(VALUES), "values": VALUES}))

    def configure(self, **nnunet: object) -> None:
        (self.workspace / "config.yaml").write_text(json.dumps(CONFIG | {"nnunet": CONFIG["nnunet"] | nnunet}))

    def start(self) -> "subprocess.Popen[str]":
        """train.py with what the sandbox sets, and nothing else."""
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}
        environment |= {"M3_DATA": str(self.data), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "train.py"],
            cwd=self.workspace,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def train(self) -> tuple[int, str]:
        process = self.start()
        output, _ = process.communicate()
        return process.returncode, output

    def stop(self, number: signal.Signals) -> int:
        """Start a training and send the signal once it has a checkpoint. -> exit code."""
        process = self.start()
        end = time.monotonic() + 900
        while not self.checkpoints() and time.monotonic() < end:
            assert process.poll() is None, process.stdout and process.stdout.read()
            time.sleep(0.02)
        process.send_signal(number)
        process.communicate()
        return process.returncode

    def checkpoints(self) -> list[int]:
        """Iterations of the whole checkpoints."""
        found = (self.workspace / "checkpoints" / "nnunet").glob("checkpoint-*")
        return sorted(int(path.name.split("-")[1]) for path in found)

    def note(self, name: str) -> Any:
        return json.loads((self.workspace / name).read_text())


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
def trained(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Killed after its first checkpoint, with a torn one after it as a power cut might leave it, then finished."""
    bench = Bench(tmp_path_factory.mktemp("nnunet"))
    bench.stop(signal.SIGKILL)
    folder = bench.workspace / "checkpoints" / "nnunet"
    newest = folder / f"checkpoint-{bench.checkpoints()[-1]}" / "state.pt"
    torn = folder / "checkpoint-999999" / "state.pt"
    torn.parent.mkdir()
    torn.write_bytes(newest.read_bytes()[:-2000])
    code, output = bench.train()
    assert code == 0, output
    (bench.workspace / "output.txt").write_text(output)
    return bench


def test_killed_training_goes_on_and_leaves_what_it_promises(trained: Bench) -> None:
    output = (trained.workspace / "output.txt").read_text()
    assert "checkpoint-999999 is passed over: it does not load" in output
    assert "attempt 2 goes on from checkpoint-" in output
    metrics = trained.note("metrics.json")
    assert metrics["attempts"] == 2 and metrics["epochs"] == 3 and metrics["iterations"] == 9
    assert metrics["metric_name"] == "dice" and set(metrics["metrics"]) == {"dice", "dice organ", "dice vessel"}
    assert metrics["samples"] == {"train": 4, "val": 2} and metrics["parameters"] > 0
    lines = [json.loads(line) for line in (trained.workspace / "progress.jsonl").read_text().splitlines()]
    for line in lines:
        JobProgress.model_validate({"run_id": "r", "job_id": "j", **line})
    epochs = [line["epoch"] for line in lines]
    assert set(epochs) == {1, 2, 3} and epochs.count(1) == 1 and epochs[-1] == 3
    assert checksum_faults(trained.workspace / "package") == []
    assert trained.note("package/label_map.json") == {"names": ["organ", "vessel"], "values": VALUES}


def test_dataset_of_nnunet_has_our_fold_classes_and_geometry(trained: Bench) -> None:
    cache = trained.workspace / "cache" / "nnunet"
    (fold,) = json.loads((cache / "preprocessed/Dataset001_structures/splits_final.json").read_text())
    assert len(fold["train"]) == 4 and len(fold["val"]) == 2
    raw = cache / "raw/Dataset001_structures"
    images = sorted((raw / "imagesTr").iterdir())
    assert len(images) == 6 and all(path.is_symlink() for path in images)
    for image in images:
        number = int(image.resolve().name[1])
        mask = nibabel.load(raw / "labelsTr" / image.name.replace("_0000", ""))
        np.testing.assert_allclose(mask.affine, affine(number), atol=1e-5)
        assert mask.get_data_dtype() == np.uint8
        truth = voxels(trained.data / f"s{number}_mask.nii.gz")
        np.testing.assert_array_equal(np.asanyarray(mask.dataobj), (truth == 3) + 2 * (truth == 28))
        assert (image.name[:-12] in fold["val"]) == (number >= 4)


def test_package_keeps_grid_and_values_and_has_the_stated_dice(trained: Bench, tmp_path: Path) -> None:
    """As a stranger runs it: `python -I`, no environment; a bad input costs only itself."""
    (tmp_path / "noise.nii.gz").write_bytes(b"no image")
    channels = tmp_path / "folder"
    channels.mkdir()
    shutil.copy(trained.data / "s5.nii.gz", channels / "any_0000.nii.gz")
    inputs = [trained.data / "s4.nii.gz", trained.data / "s5.nii.gz", tmp_path / "noise.nii.gz", channels]
    command = [sys.executable, "-I", str(trained.workspace / "package/predict.py"), *map(str, inputs)]
    done = subprocess.run([*command, "--output", "out"], cwd=tmp_path, env={}, capture_output=True, text=True)
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


def test_checkpoints_of_another_training_are_refused(trained: Bench) -> None:
    before, figures = trained.checkpoints(), trained.note("metrics.json")
    trained.configure(learning_rate=0.02)
    code, output = trained.train()
    trained.configure()
    assert code == 1, output
    first, second = output.strip().splitlines()[-2:]
    assert "belong to another configuration" in first and "nnunet.start_over" in second
    assert trained.checkpoints() == before and trained.note("metrics.json") == figures


def test_faults_of_masks_are_told_together_before_training(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    good = nibabel.load(bench.data / "s0_mask.nii.gz")
    values = np.asanyarray(good.dataobj)
    nibabel.save(nibabel.Nifti1Image(values + 4 * (values == 3), good.affine), bench.data / "s0_mask.nii.gz")
    nibabel.save(nibabel.Nifti1Image(values[:-1], good.affine), bench.data / "s1_mask.nii.gz")
    nibabel.save(nibabel.Nifti1Image(values * 0.5, good.affine), bench.data / "s2_mask.nii.gz")
    shifted = affine(3)
    shifted[:3, 3] += 50
    nibabel.save(nibabel.Nifti1Image(voxels(bench.data / "s3_mask.nii.gz"), shifted), bench.data / "s3_mask.nii.gz")
    code, output = bench.train()
    assert code == 2, output
    for number, word in enumerate(("7", "voxels", "whole", "elsewhere")):
        assert any(line.startswith(f"- s{number}: ") and word in line for line in output.splitlines()), output
    assert not (bench.workspace / "checkpoints").exists() and not (bench.workspace / "package").exists()


def test_pictures_are_two_dimensional_and_sigterm_saves(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for row in bench.rows:
        for field in ("files", "target"):
            name = row["files"][0] if field == "files" else row["target"]
            plane = voxels(bench.data / name)[:, :, 10].astype(np.uint8)
            picture = name.replace(".nii.gz", ".png")
            Image.fromarray(plane).save(bench.data / picture)
            row[field] = [picture] if field == "files" else picture
    bench.write()
    bench.configure(epochs=1000)
    assert bench.stop(signal.SIGTERM) == 128 + signal.SIGTERM
    assert bench.checkpoints() and not (bench.workspace / "package").exists()
    bench.configure(epochs=1)
    code, output = bench.train()
    assert code == 0 and "attempt 2 goes on from" in output, output
    config = bench.note("package/config.json")
    assert config["configuration"] == "2d" and config["plans"]["image_reader_writer"] == "NaturalImage2DIO"
    command = [sys.executable, "-I", str(bench.workspace / "package/predict.py"), str(bench.data / "s5.png")]
    done = subprocess.run([*command, "--output", "out"], cwd=tmp_path, env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    mask = np.asarray(Image.open(tmp_path / "out" / "s5.png"))
    assert mask.shape == (24, 28) and set(np.unique(mask)) <= {0, 3, 28}
