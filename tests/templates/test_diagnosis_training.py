"""The template trains unedited, leaves what it promises, and survives being killed."""

import json
import math
import re
import signal
import sys
from pathlib import Path

import pytest

from shared.contracts.training import JobProgress
from shared.training.callbacks import AVERAGED
from shared.training.checkpoints import pick_checkpoint
from shared.training.exported.package_cli import damage
from shared.training.imports import needed
from shared.training.saved import AVERAGED_EVERY
from tests.templates.conftest import modules
from tests.templates.forked import wait_for
from tests.templates.segbench import torn_after

# A training is some seconds of work; on a machine that many share it took minutes.
pytestmark = pytest.mark.timeout(900)
PACKAGE = {
    "model.safetensors",
    "config.json",
    "label_map.json",
    "package_cli.py",
    "predict.py",
    "imaging",
    "model.py",
    "images.py",
    "augment.py",
    "networks.py",
    "resnet.py",
    "metadata.json",
    "environment.txt",
    "MODEL_CARD.md",
    "SHA256SUMS",
}


@pytest.mark.parametrize("mode", ["3d", "2d-multi"])
def test_smoke_by_command_line(bench, mode):
    before = set(bench.workspace.iterdir())
    done = bench.run("train.py", "--smoke", *([mode] if mode != "3d" else []))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"smoke test passed \({mode}\) after [\d.]+ s", done.stdout)
    assert ("package says [" in done.stdout) == mode.endswith("multi"), "several labels are a list"
    assert {item.name for item in set(bench.workspace.iterdir()) - before} <= {"__pycache__"}


def test_3d_leaves_package_progress_and_metrics(trained_3d):
    package = trained_3d.workspace / "package"
    assert {item.name for item in package.iterdir()} == PACKAGE
    assert damage(package) == []
    metrics = trained_3d.metrics()
    assert metrics["split"] == "val" and metrics["samples"] == {"train": 12, "val": 6}
    assert metrics["metric"] == metrics["metrics"]["auc_macro"] and 0 <= metrics["metric"] <= 1
    assert metrics["epochs"] == 3 and metrics["parameters"] > 0 and metrics["input_shape"] == [1, 8, 24, 24]
    lines = trained_3d.progress()
    for line in lines:
        JobProgress.model_validate({"run_id": "r", "job_id": "j", **line})
    evaluated = [line for line in lines if "metric" in line]
    assert {line["epoch"] for line in evaluated} >= {1, 2, 3}
    assert all(line["metric_name"] == "auc_macro" and line["eta_seconds"] >= 0 for line in evaluated)


def test_card_and_metadata_state_recorded_facts(trained_3d):
    package = trained_3d.workspace / "package"
    metadata = json.loads((package / "metadata.json").read_text())
    image = metadata["network_data_format"]["inputs"]["image"]
    assert image["spatial_shape"] == [8, 24, 24] and image["num_channels"] == 1
    label_map = json.loads((package / "label_map.json").read_text())
    names = label_map["names"]
    assert label_map["ordered"] and -1 <= trained_3d.metrics()["metrics"]["quadratic_kappa"] <= 1
    assert list(metadata["network_data_format"]["outputs"]["pred"]["channel_def"].values()) == names
    card = (package / "MODEL_CARD.md").read_text()
    assert "| left block | 4 | 2 |" in card
    assert f"{trained_3d.metrics()['metric']:.3f}" in card
    assert re.search(r"^torch==\d", (package / "environment.txt").read_text(), re.MULTILINE)


def test_delivered_figures_are_those_of_the_delivered_weights(trained_3d, predict, tmp_path):
    """The validation accuracy in metrics.json, found again through predict.py on the validation scans."""
    rows = [row for row in trained_3d.rows if row["split"] == "val"]
    done = predict(trained_3d.workspace / "package", tmp_path, *(trained_3d.data / r["sample_id"] for r in rows))
    assert done.returncode == 0, done.stderr
    cases = json.loads((tmp_path / "predictions.json").read_text())["cases"]
    right = sum(case["label"] == row["label"] for case, row in zip(cases, rows, strict=True))
    assert right / len(rows) == pytest.approx(trained_3d.metrics()["metrics"]["accuracy"])


def several(bench):
    """None, one or both of two labels, in a place each, from what `scans` has made of three classes."""
    for row in bench.rows:
        row["label"] = [] if row["label"] == "plain" else [row["label"]]
    bench.names = ["left", "right"]
    bench.write()


def test_2d_with_several_labels_from_weights_that_are_there(bench, predict, tmp_path):
    """Asymmetric loss, balanced sampling, bf16; the encoder begins with tensors of another training."""
    import torch

    template = modules("diagnosis", "config", "networks")
    bench.scans(36, (48, 40), ("plain", "left", "right"))
    several(bench)
    given = template.networks.make_encoder(template.config.Model(width=8), (48, 40))
    torch.save({f"encoder.{name}": value for name, value in given.state_dict().items()}, bench.workspace / "old.pt")
    bench.configure(epochs=12, width=8, weights="old.pt", name="asymmetric", sampling="balanced", patience=0)
    bench.configure(train_seconds=None, modality="xray")
    config = (bench.workspace / "config.yaml").read_text()
    (bench.workspace / "config.yaml").write_text(config.replace("training:\n", "training:\n  precision: bf16\n"))
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"(\d+) of the backbone's \1 tensors are taken from old.pt", done.stdout)
    found = bench.metrics()
    assert found["multi_label"] is True and set(found["auc_by_class"]) == {"left", "right"}
    assert found["metrics"]["auc_macro"] == pytest.approx(sum(found["auc_by_class"].values()) / 2)
    package = bench.workspace / "package"
    config = json.loads((package / "config.json").read_text())
    assert config["preprocess"]["input_shape"] == [48, 40] and config["multi_label"] is True
    assert config["model"]["weights"] is None
    rows = [row for row in bench.rows if row["split"] == "val"]
    done = predict(package, tmp_path / "out", *(bench.data / row["files"][0] for row in rows))
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert told["multi_label"] is True and told["labels"] == ["left", "right"]
    right = 0
    for case, row in zip(told["cases"], rows, strict=True):
        assert case["label"] == [name for name, chance in case["probabilities"].items() if chance >= 0.5]
        right += set(case["label"]) == set(row["label"])
    assert right / len(rows) == pytest.approx(found["metrics"]["accuracy"])


def averages_all(checkpoint):
    """The first step of every few is averaged, up to the checkpoint's."""
    import torch

    steps = int(checkpoint.name.split("-")[1])
    return int(torch.load(checkpoint / AVERAGED, weights_only=True)["n_averaged"]) == math.ceil(steps / AVERAGED_EVERY)


def test_killed_training_of_several_labels_goes_on_from_the_newest_intact_checkpoint(bench):
    bench.scans(18, (8, 32, 32), ("plain", "left", "right"))
    several(bench)
    bench.configure(epochs=4000, width=8, input_shape=[8, 24, 24], patience=0, train_seconds=None)
    config = (bench.workspace / "config.yaml").read_text()
    (bench.workspace / "config.yaml").write_text(config.replace("training:\n", "training:\n  save_seconds: 0\n"))
    checkpoints = bench.workspace / "checkpoints"
    process = bench.start("train.py")
    wait_for(process, lambda: pick_checkpoint(checkpoints)[0])
    process.kill()
    intact = pick_checkpoint(checkpoints)[0]
    assert averages_all(intact)
    torn_after(intact, "optimizer.pt")
    # The time is no part of what makes a training another one: it goes on, and now has an end.
    bench.configure(train_seconds=1)
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checkpoint-999999 is passed over: it does not load" in done.stdout
    found = re.search(r"attempt 2 goes on from checkpoint-(\d+)", done.stdout)
    assert found and int(found.group(1)) > 0
    assert bench.metrics()["attempts"] == 2 and bench.metrics()["multi_label"] is True
    steps = [line["step"] for line in bench.progress() if "step" in line]
    assert min(steps[len(steps) // 2 :]) > 1
    newest = pick_checkpoint(checkpoints)[0]
    assert newest.name != intact.name
    assert averages_all(newest), "the average goes on where it was"


def test_sigterm_saves_and_ends(bench):
    bench.scans(12, (8, 32, 32))
    bench.write()
    bench.configure(epochs=4000, width=8, input_shape=[8, 24, 24], patience=0)
    process = bench.start("train.py")
    wait_for(process, (bench.workspace / "checkpoints" / "best" / "best.json").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(280) == 128 + signal.SIGTERM
    assert list((bench.workspace / "checkpoints").glob("checkpoint-*/trainer_state.json"))
    assert not (bench.workspace / "package").exists()


def test_template_imports_are_all_real():
    """Every module of the template compiles and names only modules that exist (the published ones did not parse)."""
    import ast
    import importlib.util

    folder = Path(__file__).parents[2] / "templates" / "diagnosis"
    own = {path.stem for path in folder.glob("*.py")} | {"shared"}
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            roots = []
            if isinstance(node, ast.Import):
                roots = [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                roots = [node.module.partition(".")[0]]
            for root in roots:
                assert root in own or root in sys.stdlib_module_names or importlib.util.find_spec(root), (path, root)


def test_a_package_gets_what_predict_imports_and_nothing_of_training():
    found = needed(Path(__file__).parents[2] / "templates" / "diagnosis" / "predict.py")
    own = {name for name in found.files if "/" not in name}
    assert own == {name for name in PACKAGE if name.endswith(".py")}
    assert "imaging/volume.py" in found.files and {"torch", "monai", "nibabel"} <= found.distributions
