"""The last fit of a training: weights that have learned from the validation cases, too, in a package of their own."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from shared.training.budget import TimeBudget
from shared.training.configfile import FittedTraining
from shared.training.exported.package_cli import damage
from shared.training.lastfit import last_fit, wanted_seconds
from shared.training.package import FITTED_NOTE

CPU = torch.device("cpu")


class Line(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(self.layer.weight)

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": ((self.layer(image) - labels) ** 2).mean()}


def items(*values: float) -> list[dict[str, torch.Tensor]]:
    return [{"image": torch.tensor([1.0]), "labels": torch.tensor([value])} for value in values]


def weights(package: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = safetensors.torch.load_file(package / "model.safetensors")
    return found


@pytest.mark.parametrize("kind", ["trained_3d", "trained_masks"])
def test_what_is_delivered_has_seen_all_cases(kind: str, request: Any) -> None:
    bench = request.getfixturevalue(kind)
    package, fitted = (bench.workspace / name for name in ("package", "fitted"))
    told = bench.metrics()["last_fit"]
    assert told["cases"] == len(bench.rows) and told["epochs"] >= 1 and told["seconds"] > 0
    before, after = weights(package), weights(fitted)
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert damage(package) == damage(fitted) == []
    names = [{str(path.relative_to(one)) for path in one.rglob("*")} for one in (package, fitted)]
    assert names[0] == names[1]
    cards = [(one / "MODEL_CARD.md").read_text() for one in (package, fitted)]
    assert FITTED_NOTE not in cards[0] and cards[1].replace(f"{FITTED_NOTE}\n", "") == cards[0]


def test_what_is_measured_has_not_seen_them(bench: Any) -> None:
    """The package has the weights that were chosen before; without a last fit none of old stays."""
    bench.scans(18, (24, 24))
    bench.write()
    bench.configure(epochs=3, width=8, input_shape=[24, 24])
    assert bench.train().returncode == 0
    chosen = safetensors.torch.load_file(bench.workspace / "checkpoints" / "best" / "model.safetensors")
    measured = weights(bench.workspace / "package")
    assert all(torch.equal(chosen[name], measured[name]) for name in measured)
    assert (bench.workspace / "fitted").is_dir()
    bench.configure(last_fit=0)
    assert bench.train().returncode == 0
    assert "last_fit" not in bench.metrics() and not (bench.workspace / "fitted").exists()


def test_a_short_try_has_none() -> None:
    assert wanted_seconds(FittedTraining(train_seconds=100)) == 25
    assert wanted_seconds(FittedTraining(train_seconds=100, whole_seconds=150)) == 25
    assert wanted_seconds(FittedTraining(train_seconds=100, whole_seconds=400)) == 0
    assert wanted_seconds(FittedTraining(train_seconds=None, epochs=3)) == 0


def test_it_learns_and_leaves_the_model_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, wanted = Line(), FittedTraining(train_seconds=8, learning_rate=0.1, batch_size=2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    began = time.monotonic()
    fitted = last_fit(model, items(*[3.0] * 6), wanted, CPU, TimeBudget(8, began, last=2), 5, lambda _: 1.0)
    assert fitted and 1.5 < time.monotonic() - began < 6
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    assert abs(float(fitted.weights["layer.weight"] + fitted.weights["layer.bias"]) - 3) < 0.1
    last = json.loads((tmp_path / "progress.jsonl").read_text().splitlines()[-1])
    assert last["text"].endswith("100%")


@pytest.mark.parametrize("why", ["no time", "not finite", "asked to stop"])
def test_nothing_comes_of_it(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, spent = Line(), 100.0 if why == "no time" else 0.0
    budget = TimeBudget(8, time.monotonic(), spent, last=2)
    budget.asked = why == "asked to stop"
    value = float("nan") if why == "not finite" else 1.0
    wanted = FittedTraining(train_seconds=8, learning_rate=0.1, batch_size=2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert last_fit(model, items(1.0, value), wanted, CPU, budget, 5, lambda _: 1.0) is None
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_processes_fit_together(bench: Any) -> None:
    bench.scans(24, (24, 24))
    bench.write()
    bench.configure(epochs=6, width=8, train_seconds=120, sampling="balanced", batch_size=4)
    done = bench.run("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "train.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on 2 processes" in done.stdout
    # A third of six epochs.
    assert bench.metrics()["last_fit"]["epochs"] == 2 and bench.metrics()["last_fit"]["cases"] == 24
    before, after = (weights(bench.workspace / name) for name in ("package", "fitted"))
    assert any(not torch.equal(before[name], after[name]) for name in before)
