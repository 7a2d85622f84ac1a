"""Templates as an engineer changes them: new files, network, loss, data, loop and predictions, trained and packaged."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from shared.training.exported.package_cli import damage
from shared.training.package import checksums
from tests.templates.conftest import Bench

pytestmark = pytest.mark.timeout(900)


def edit(bench: Bench, file: str, *changes: tuple[str, str]) -> None:
    """Each old text of a file, which must be there once, becomes the new one."""
    path = bench.workspace / file
    text = path.read_text()
    for old, new in changes:
        assert text.count(old) == 1, (file, old, text.count(old))
        text = text.replace(old, new)
    path.write_text(text)


def alone(package, output, *inputs):
    """The answers of a package in an empty environment and another folder."""
    output.mkdir()
    command = [sys.executable, "-I", str(package / "predict.py"), *map(str, inputs), "--output", str(output)]
    done = subprocess.run(command, cwd=output, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((output / "predictions.json").read_text())["cases"]


TINY = '''"""A network of our own: two convolutions."""

import torch
from torch import nn

KERNEL = 3


class Tiny(nn.Module):
    def __init__(self, inputs: int, dims: int) -> None:
        super().__init__()
        conv = nn.Conv3d if dims == 3 else nn.Conv2d
        self.layers = nn.Sequential(conv(inputs, 8, KERNEL, 2, 1), nn.ReLU(), conv(8, 16, KERNEL, 2, 1), nn.ReLU())

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(image)
'''
MARGIN = '''class Margin(Loss):
    """A multi-class hinge."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hinge = F.multi_margin_loss(logits, labels, margin=self.settings["margin"])
        return hinge + 0.1 * F.cross_entropy(logits, labels)


def make_loss('''


@pytest.mark.slow
def test_a_classifier_of_ones_own(bench, tmp_path):
    """A network in a new file, a new loss, a crop and a second channel, SGD with mixup, and two looks in predict.py."""
    bench.scans(36, (40, 40))
    bench.write()
    bench.configure(epochs=6, patience=0, train_seconds=None, input_shape=[24, 24], channels=1)
    (bench.workspace / "tiny.py").write_text(TINY)
    edit(
        bench,
        "model.py",
        ("from networks import make_encoder, map_of", "from networks import map_of\nfrom tiny import Tiny"),
        (
            "encoder = make_encoder(config.model, shape, inputs, PLACES)",
            "inputs = 2\n    encoder = Tiny(inputs, len(shape))",
        ),
        ("def make_loss(", MARGIN),
        ("loss = make_loss(config.loss, bool(config.multi_label), class_weights)", "loss = Margin(margin=1.5)"),
    )
    edit(
        bench,
        "images.py",
        (
            "    groups = views_of(files, len(how.input_shape))\n    if are_channels",
            "    image = load_image(files, how)\n"
            "    middle = dataclasses.replace(image, array=image.array[:20, :20])\n"
            "    return np.concatenate([preprocess(image, how), preprocess(middle, how)])\n"
            "    groups = views_of(files, len(how.input_shape))\n    if are_channels",
        ),
        ("import json\n", "import dataclasses\nimport json\n"),
        (
            '        return {**batch, "image": self.augment(batch["image"])}\n',
            "        # Mixup: a little of another image.\n"
            '        image = self.augment(batch["image"][:, :1])\n'
            '        image = torch.cat([image, batch["image"][:, 1:]], 1)\n'
            '        return {**batch, "image": 0.9 * image + 0.1 * image[torch.randperm(len(image))]}\n',
        ),
    )
    edit(
        bench,
        "train.py",
        ("torch.optim.AdamW(groups, lr=wanted.learning_rate, fused=True)", "torch.optim.SGD(groups, 0.02, 0.9)"),
        ("input_shape=(how.views * how.channels, *how.input_shape),", "input_shape=(2, *how.input_shape),"),
    )
    edit(
        bench,
        "predict.py",
        (
            'logits = self.network(batch)["logits"].double().cpu()',
            'logits = sum(self.network(look)["logits"] for look in (batch, batch.flip(-2))).double().cpu() / 2',
        ),
    )
    facts = bench.probe("verify_batches", "--folder", ".")
    assert facts["ok"] and facts["batches"]["train"]["shape"] == [4, 2, 24, 24], facts
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    package = bench.workspace / "package"
    assert damage(package) == []
    files = {path.name for path in package.glob("*.py")}
    assert "tiny.py" in files and not {"train.py", "config.py"} & files
    card = (package / "MODEL_CARD.md").read_text()
    assert "Classifier(encoder: Tiny" in card and "Loss: Margin(margin 1.5)" in card and "ResNet" not in card
    assert "2 x 24 x 24" in card
    assert (
        f"Network: {facts['built']['model']}, " in card and f"Augmentation: {facts['built']['augmentation']}." in card
    )
    facts = bench.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")
    assert facts["ok"], facts["errors"]
    cases = alone(package, tmp_path / "out", *(bench.data / row["files"][0] for row in bench.rows[:4]))
    assert [case["input"] for case in cases] == [f"s{number:03d}.png" for number in range(4)]
    assert all(case["label"] in ("plain", "block") for case in cases), cases


@pytest.mark.slow
def test_a_report_writer_of_ones_own(new_bench, tmp_path):
    """An encoder in a new file, frozen at first, cleaned texts, and a sentence that predict.py adds."""
    bench = new_bench(tmp_path / "bench", "report_generation")
    bench.scans(12, (32, 32))
    for row in bench.rows:
        row |= {"label": None, "target": f"Findings: a {row['label']}  picture (XXXX)."}
    bench.write()
    bench.configure(epochs=2, patience=0, train_seconds=None, hidden=32, layers=1, heads=2)
    (bench.workspace / "tiny.py").write_text(TINY)
    edit(
        bench,
        "model.py",
        ("from networks import make_encoder, map_of", "from networks import map_of\nfrom tiny import Tiny"),
        ("make_encoder(wanted, shape, self.inputs, wanted.tokens)", "Tiny(self.inputs, len(shape))"),
    )
    edit(
        bench,
        "words.py",
        ('return " ".join(text.split())', 'return " ".join(text.replace("(XXXX)", "").split())'),
    )
    edit(
        bench,
        "train.py",
        ("    # Optimiser and schedule", "    network.encoder.requires_grad_(False)\n    # Optimiser and schedule"),
    )
    edit(bench, "predict.py", ('{"report": text}', '{"report": text + " Read by a machine."}'))
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    package = bench.workspace / "package"
    assert damage(package) == [] and (package / "tiny.py").is_file()
    assert "ReportModel(encoder: Tiny" in (package / "MODEL_CARD.md").read_text()
    assert "XXXX" not in (package / "tokenizer.json").read_text()
    (case,) = alone(package, tmp_path / "out", bench.data / "s000.png")
    assert case["report"].endswith(" Read by a machine.")


BROKEN = {
    "no predict.py": ("predict.py", None, "", r"predict.py is missing\nwrite it"),
    "an import that packages lack": (
        "model.py",
        "import torch\n",
        "import torch\nfrom shared.training.cache import ArrayCache\n",
        r"model.py line \d+ imports shared.training.cache.ArrayCache, which a package does not have\nimport it in",
    ),
    "an import that is not there": (
        "images.py",
        "import json\n",
        "import json\n\n\ndef late():\n    import no_such_module\n",
        r"images.py line \d+ imports no_such_module, which is not installed here\ntake a package that is",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_could_not_be_packaged_is_told_before_training(bench, fault):
    file, old, new, told = BROKEN[fault]
    bench.scans(8, (24, 24))
    bench.write()
    if old is None:
        (bench.workspace / file).unlink()
    else:
        edit(bench, file, (old, new))
    facts = bench.probe("verify_batches", "--folder", ".")
    assert any(re.search(told, error) for error in facts["errors"]), facts["errors"]
    done = bench.train()
    assert done.returncode == 2 and re.search(told, done.stderr), done.stdout + done.stderr
    assert "Traceback" not in done.stderr and not (bench.workspace / "progress.jsonl").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            '"probabilities": chances}\n\n\nif',
            '"chances": chances}\n\n\nif',
            "must have one probability for each label",
        ),
        ('"logits"].double()', '"logit"].double()', "KeyError"),
    ],
)
def test_what_predict_answers_is_checked(trained_3d, tmp_path, old, new, told):
    """A package with another output, or one that fails on every image, is named with what to change."""
    package = tmp_path / "package"
    shutil.copytree(trained_3d.workspace / "package", package)
    text = (package / "predict.py").read_text()
    assert text.count(old) == 1
    (package / "predict.py").write_text(text.replace(old, new))
    (package / "SHA256SUMS").write_text(checksums(package))
    sample = str(trained_3d.data / "s000")
    facts = trained_3d.probe("verify_package", "--package", str(package), "--sample", sample)
    assert not facts["ok"] and any(told in error and "\n" in error for error in facts["errors"]), facts["errors"]
