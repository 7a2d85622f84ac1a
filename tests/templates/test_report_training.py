"""The report template trains unedited, reads the image, leaves what it promises, and survives being killed."""

import json
import re
import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest
import safetensors.torch
from PIL import Image

from shared.contracts.training import JobProgress
from shared.training.checkpoints import pick_checkpoint
from shared.training.exported.package_cli import damage
from shared.training.imports import needed
from tests.templates.forked import wait_for
from tests.templates.segbench import torn_after

TEXTS = (
    "Findings: a bright disc on the left side. Impression: disc, left.",
    "Findings: a bright disc on the right side. Impression: disc, right.",
    "Findings: the film is clear, no disc is seen. Impression: normal.",
)
ROOT = Path(__file__).parents[2]
WITHOUT_AUGMENTATION = {"flip_axes": [], "rotate_degrees": 0, "scale": 0, "shift": 0, "brightness": 0, "noise": 0}
"""Nothing needs to import it then, which takes seconds; the smoke test has it."""
PACKAGE = {
    "model.safetensors",
    "config.json",
    "label_map.json",
    "predict.py",
    "package_cli.py",
    "imaging",
    "words.py",
    "telling.py",
    "telling.json",
    "model.py",
    "images.py",
    "augment.py",
    "networks.py",
    "resnet.py",
    "tokenizer.json",
    "metadata.json",
    "environment.txt",
    "MODEL_CARD.md",
    "SHA256SUMS",
}

# A training is some seconds of work; on a machine that many share it took minutes.
pytestmark = pytest.mark.timeout(1500)


def disc(generator, kind):
    """40 x 40 of noise with a bright disc on the left (0), on the right (1) or nowhere (2): that decides the text."""
    down, across = np.mgrid[:40, :40]
    picture = generator.normal(90, 20, (40, 40))
    if kind < 2:
        middle = np.array([20, (10, 30)[kind]]) + generator.integers(-2, 3, 2)
        picture[(down - middle[0]) ** 2 + (across - middle[1]) ** 2 < 36] += 110
    return np.clip(picture, 0, 255).astype(np.uint8)


def discs(made, count):
    """Cases of one or two views, each a file."""
    generator = np.random.default_rng(0)
    for number in range(count):
        files = []
        for view in range(1 if number % 5 == 4 else 2):
            name = f"s{number:02d}/{view}.png"
            (made.data / name).parent.mkdir(exist_ok=True)
            Image.fromarray(disc(generator, number % 3)).save(made.data / name)
            files.append(name)
        made.add(
            f"s{number:02d}", files, None, "val" if number >= count * 3 // 4 else "train", target=TEXTS[number % 3]
        )


def volumes(made, count):
    """NIfTI volumes with a bright left or right half; the array's first axis runs to the patient's right."""
    generator = np.random.default_rng(0)
    for number in range(count):
        volume = generator.normal(0, 10, (20, 18, 12)).astype(np.float32)
        volume[slice(0, 10) if number % 2 else slice(10, 20)] += 60
        nibabel.save(nibabel.Nifti1Image(volume, np.diag([2.0, 2.0, 3.0, 1.0])), made.data / f"s{number}.nii.gz")
        text = f"The {('right', 'left')[number % 2]} half is bright."
        made.add(f"s{number}", [f"s{number}.nii.gz"], None, "val" if number >= count - 4 else "train", target=text)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, new_bench):
    """Trained to its end on discs, shared by all tests that only read it."""
    made = new_bench(tmp_path_factory.mktemp("reports"), "report_generation")
    discs(made, 48)
    made.write()
    made.configure(epochs=30, width=8, hidden=64, patience=0, train_seconds=None, batch_size=6)
    made.configure(**WITHOUT_AUGMENTATION)
    done = made.train()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_the_text_follows_the_image(trained, predict, tmp_path):
    """The published report module never looked at the image. Cases that no training has seen, one of them broken."""
    generator = np.random.default_rng(99)
    cases = []
    for number, kind in enumerate((0, 1, 2, 1, 0, 2)):
        cases.append(tmp_path / f"case_{number}.png")
        Image.fromarray(disc(generator, kind)).save(cases[-1])
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    done = predict(trained.workspace / "package", tmp_path / "out", *cases, torn)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert set(found) == {"task", "cases"} and found["task"] == "report_generation"
    assert [case["input"] for case in found["cases"]] == [*(case.name for case in cases), "torn"]
    *texts, last = found["cases"]
    assert set(last) == {"input", "error"} and "0.png cannot be read" in last["error"]
    assert [case["report"] for case in texts] == [TEXTS[kind] for kind in (0, 1, 2, 1, 0, 2)]


def test_metrics_say_what_is_owed_to_the_image(trained):
    metrics = trained.metrics()
    figures = metrics["metrics"]
    assert metrics["metric_name"] == "rouge_l" and metrics["metric"] == figures["rouge_l"] > 0.9
    assert figures["image_dependence"] == pytest.approx(figures["rouge_l"] - figures["rouge_l_shuffled"])
    assert figures["image_dependence"] > 0.1 and figures["image_dependence_p"] <= 0.05 and metrics["warnings"] == []
    assert metrics["input_shape"] == [2, 40, 40] and metrics["samples"] == {"train": 36, "val": 12}
    written = json.loads((trained.workspace / "val_reports.json").read_text())
    assert len(written) == 12 and {"sample_id", "report", "written"} == set(written[0])
    lines = trained.progress()
    for line in lines:
        JobProgress.model_validate({"run_id": "r", "job_id": "j", **line})
    assert any(line.get("metric_name") == "rouge_l" and line["metric"] > 0.9 for line in lines)


def test_package_is_whole_and_states_facts(trained):
    package = trained.workspace / "package"
    assert {item.name for item in package.iterdir()} == PACKAGE
    assert damage(package) == []
    assert json.loads((package / "tokenizer.json").read_text())["model"]["type"] == "BPE"
    card = (package / "MODEL_CARD.md").read_text()
    assert "| reports | 36 | 12 |" in card and f"{trained.metrics()['metric']:.3f}" in card
    assert "do not use this model" not in card
    metadata = json.loads((package / "metadata.json").read_text())
    assert metadata["network_data_format"]["outputs"]["pred"]["type"] == "text"
    assert "classes" not in json.dumps(metadata) and list(
        metadata["network_data_format"]["inputs"]["image"]["channel_def"].values()
    ) == ["view 0", "view 1"]
    assert re.search(r"^transformers==\d", (package / "environment.txt").read_text(), re.MULTILINE)


def test_probes_accept_what_the_template_makes(trained):
    facts = trained.probe("verify_batches", "--folder", ".")
    assert facts["ok"], facts["errors"]
    assert facts["batches"]["train"]["shape"] == [4, 2, 40, 40] and facts["batches"]["val"]["labels"]["tokens"] > 0
    shape = facts["forward"]["logits_shape"]
    assert shape[0] == 4 and shape[2] == facts["vocabulary"] > 256 and facts["forward"]["gradients"]
    facts = trained.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")
    assert facts["ok"], facts["errors"]
    assert facts["cases"] == 16 and facts["different_reports"] >= 3 and facts["output_follows_image"]


def test_sentences_alone_are_written_without_a_decoder(tmp_path, new_bench, predict):
    bench = new_bench(tmp_path, "report_generation")
    discs(bench, 48)
    bench.write()
    bench.configure(writer="sentences", epochs=20, width=8, hidden=32, train_seconds=None, **WITHOUT_AUGMENTATION)
    facts = bench.probe("verify_batches", "--folder", ".")
    assert facts["ok"], facts["errors"]
    assert facts["forward"]["logits_shape"][0] == 4 and facts["forward"]["gradients"]
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    weights = safetensors.torch.load_file(bench.workspace / "package" / "model.safetensors")
    assert not any(name.startswith(("decoder", "hint")) for name in weights)
    assert "next word" not in (bench.workspace / "package" / "MODEL_CARD.md").read_text(), "no word was learned"
    written = json.loads((bench.workspace / "val_reports.json").read_text())
    assert {one["written"] for one in written} <= {*TEXTS} and bench.metrics()["metric"] > 0.5
    picture = tmp_path / "case.png"
    Image.fromarray(disc(np.random.default_rng(99), 1)).save(picture)
    assert predict(bench.workspace / "package", tmp_path / "out", picture).returncode == 0
    (said,) = json.loads((tmp_path / "out" / "predictions.json").read_text())["cases"]
    assert said["report"] in TEXTS


@pytest.mark.slow
def test_killed_training_on_volumes_goes_on_and_ends(tmp_path, new_bench):
    bench = new_bench(tmp_path, "report_generation")
    volumes(bench, 12)
    bench.write()
    bench.configure(epochs=4000, width=8, hidden=32, layers=1, patience=0, train_seconds=None)
    bench.configure(**WITHOUT_AUGMENTATION)
    config = (bench.workspace / "config.yaml").read_text()
    (bench.workspace / "config.yaml").write_text(config.replace("training:\n", "training:\n  save_seconds: 0\n"))
    checkpoints = bench.workspace / "checkpoints"
    process = bench.start("train.py")
    wait_for(process, lambda: pick_checkpoint(checkpoints)[0])
    process.kill()
    intact = pick_checkpoint(checkpoints)[0]
    torn_after(intact, "optimizer.pt")
    # The time is no part of what makes a training another one: it goes on, and now has an end.
    bench.configure(train_seconds=1)
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checkpoint-999999 is passed over: it does not load" in done.stdout
    assert re.search(r"attempt 2 goes on from checkpoint-\d+", done.stdout)
    assert bench.metrics()["attempts"] == 2 and bench.metrics()["input_shape"] == [1, 16, 16, 24]
    assert damage(bench.workspace / "package") == []


@pytest.mark.slow
def test_smoke_by_command_line(tmp_path, new_bench):
    bench = new_bench(tmp_path, "report_generation")
    before = set(bench.workspace.iterdir())
    done = bench.run("train.py", "--smoke", "3d")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "smoke test passed (3d) after" in done.stdout
    assert {item.name for item in set(bench.workspace.iterdir()) - before} <= {"__pycache__"}


def test_template_imports_are_all_real_and_predict_leads_to_what_is_exported():
    import ast
    import importlib.util

    folder = ROOT / "templates" / "report_generation"
    own = {path.stem for path in folder.glob("*.py")} | {"shared"}
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for root in (name.partition(".")[0] for name in names):
                assert root in own or root in sys.stdlib_module_names or importlib.util.find_spec(root), (path, root)
    exported = {name for name in needed(folder / "predict.py").files if "/" not in name}
    assert exported == {name for name in PACKAGE if name.endswith(".py")}
