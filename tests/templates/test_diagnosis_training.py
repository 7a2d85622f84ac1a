"""The template trains unedited, leaves what it promises, and survives being killed."""

import json
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from shared.contracts.training import JobProgress
from shared.trainkit.exported import CLI
from shared.trainkit.package import checksum_faults

PACKAGE = {
    "model.safetensors",
    "config.json",
    "label_map.json",
    "package_cli.py",
    "predict.py",
    "inference.py",
    "readers.py",
    "model.py",
    "metadata.json",
    "environment.txt",
    "MODEL_CARD.md",
    "SHA256SUMS",
}


def test_smoke_by_command_line(bench):
    before = set(bench.workspace.iterdir())
    done = bench.run("train.py", "--smoke")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "smoke test passed" in done.stdout
    assert {item.name for item in set(bench.workspace.iterdir()) - before} <= {"__pycache__"}


def test_3d_leaves_package_progress_and_metrics(trained_3d):
    package = trained_3d.workspace / "package"
    assert {item.name for item in package.iterdir()} == PACKAGE
    assert checksum_faults(package) == []
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
    names = json.loads((package / "label_map.json").read_text())["names"]
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


def test_2d_with_several_labels(bench, predict, tmp_path):
    bench.scans(18, (48, 40), ("plain", "left", "right"))
    for row in bench.rows:
        row["label"] = [] if row["label"] == "plain" else [row["label"]]
    bench.rows[1]["label"] = ["left", "right"]
    bench.names = ["left", "right"]
    bench.write()
    bench.configure(epochs=2, width=8)
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    config = json.loads((bench.workspace / "package" / "config.json").read_text())
    assert config["preprocess"]["input_shape"] == [48, 40] and config["multi_label"] is True
    done = predict(bench.workspace / "package", tmp_path / "out", bench.data / "s000.png", bench.data / "s001.png")
    assert done.returncode == 0, done.stderr
    for case in json.loads((tmp_path / "out" / "predictions.json").read_text())["cases"]:
        assert case["label"] == [name for name, chance in case["probabilities"].items() if chance >= 0.5]


def wait_for_checkpoint(process, folder: Path, older: set[str]) -> str:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert process.poll() is None, process.stdout.read()
        new = {item.parent.name for item in folder.glob("checkpoint-*/trainer_state.json")} - older
        if new:
            return max(new)
        time.sleep(0.02)
    raise AssertionError("no checkpoint appeared")


def test_killed_training_goes_on_from_the_newest_intact_checkpoint(bench):
    bench.scans(12, (8, 32, 32))
    bench.write()
    # Long enough to be killed in the middle, ended by its time once resumed.
    bench.configure(epochs=4000, width=8, input_shape=[8, 24, 24], patience=0, train_seconds=20)
    config = (bench.workspace / "config.yaml").read_text()
    (bench.workspace / "config.yaml").write_text(config.replace("training:\n", "training:\n  save_seconds: 0\n"))
    checkpoints = bench.workspace / "checkpoints"
    process = bench.start("train.py")
    wait_for_checkpoint(process, checkpoints, set())
    process.send_signal(signal.SIGKILL)
    process.wait()
    intact = max(checkpoints.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    torn = checkpoints / "checkpoint-999999"
    torn.mkdir()
    for file in intact.iterdir():
        content = file.read_bytes()
        (torn / file.name).write_bytes(content[: len(content) // 2] if file.name == "optimizer.pt" else content)
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checkpoint-999999 is passed over: it does not load" in done.stdout
    found = re.search(r"attempt 2 goes on from checkpoint-(\d+)", done.stdout)
    assert found and int(found.group(1)) > 0
    assert bench.metrics()["attempts"] == 2
    steps = [line["step"] for line in bench.progress() if "step" in line]
    assert min(steps[len(steps) // 2 :]) > 1


def test_sigterm_saves_and_ends(bench):
    bench.scans(12, (8, 32, 32))
    bench.write()
    bench.configure(epochs=4000, width=8, input_shape=[8, 24, 24], patience=0)
    process = bench.start("train.py")
    end = time.monotonic() + 120
    while time.monotonic() < end and not (bench.workspace / "checkpoints" / "best" / "best.json").exists():
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert list((bench.workspace / "checkpoints").glob("checkpoint-*/trainer_state.json"))
    assert not (bench.workspace / "package").exists()


def test_template_imports_are_all_real():
    """Every module of the template compiles and names only modules that exist (the published ones did not parse)."""
    import ast
    import importlib.util

    folder = Path(__file__).parents[2] / "templates" / "diagnosis"
    own = {path.stem for path in folder.glob("*.py")} | {CLI.stem}
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            roots = []
            if isinstance(node, ast.Import):
                roots = [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                roots = [node.module.partition(".")[0]]
            for root in roots:
                assert root in own or root in sys.stdlib_module_names or importlib.util.find_spec(root), (path, root)


def test_exported_files_import_nothing_of_ours():
    folder = Path(__file__).parents[2] / "templates" / "diagnosis"
    for path in (CLI, *(folder / name for name in ("predict.py", "inference.py", "readers.py", "model.py"))):
        assert not re.search(r"^\s*(from|import)\s+(shared|services)\b", path.read_text(), re.MULTILINE), path.name
