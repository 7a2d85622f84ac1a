"""The tiers before a training: what each refuses, what it leaves behind, and that the training does not notice them."""

import contextlib
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from shared.training.checks import TrainingFailed
from shared.training.configfile import Section
from shared.training.tiers import Climbed, climb

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Whatever ran before: items are drawn from all three generators."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


class Training(Section):
    batch_size: int = 4
    accumulate: int = 1
    learning_rate: float = 1e-2
    epochs: int = 3
    workers: int | str = 0


class Model(nn.Module):
    """Two classes of small pictures; `spoil` changes its loss."""

    def __init__(self, spoil: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(144, 2)
        )
        self.spoil = spoil

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = nn.functional.cross_entropy(self.body(image), labels)
        return {"loss": self.spoil(loss, image) if self.spoil else loss}


class Data(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Draws from all three generators, as augmentation does."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        noise = torch.rand(1, 8, 8) + random.random() + float(np.random.random())
        return {"image": noise + number % 2, "labels": torch.tensor(number % 2)}


def climbed(model: nn.Module, folder: Path, seconds: float = math.inf, **more: Any) -> tuple[Climbed, dict[str, Any]]:
    given = {"data": Data(10), "wanted": Training()} | more
    device = torch.device("cpu")
    with contextlib.chdir(folder):
        found = climb(model, **given, device=device, smaller="the input", seconds=seconds)
    return found, told(folder)


def told(folder: Path) -> dict[str, Any]:
    tiers = json.loads((folder / "tiers.json").read_text())["tiers"]
    return {tier["tier"]: tier for tier in tiers}


def refused(model: nn.Module, folder: Path, **more: Any) -> tuple[list[str], dict[str, Any]]:
    with pytest.raises(TrainingFailed) as raised:
        climbed(model, folder, **more)
    lines = str(raised.value).splitlines()
    assert len(lines) == 2 and all(lines)
    return lines, told(folder)


def state(model: nn.Module) -> list[Any]:
    kept = [tensor.clone().numpy().tobytes() for tensor in (*model.state_dict().values(), torch.get_rng_state())]
    numbers: Any = np.random.get_state()
    return [*kept, random.getstate(), numbers[1].tobytes(), numbers[2], [part.training for part in model.modules()]]


def test_threads_are_as_many_as_make_a_step_fastest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        _, tiers = climbed(Model(), tmp_path)
        assert tiers["part"]["threads"] == torch.get_num_threads() in (1, 2)
    finally:
        torch.set_num_threads(before)
    assert f"{tiers['part']['threads']} of 2 threads are taken: a step takes" in capsys.readouterr().out


def test_a_good_training_passes_each_tier_with_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, tiers = climbed(Model(), tmp_path)
    assert list(tiers) == ["one_case", "one_batch", "part"] and all(tier["passed"] for tier in tiers.values())
    assert tiers["one_case"]["gradient"] > 0 and tiers["one_case"]["peak_memory_mb"] > 10
    losses = tiers["one_batch"]["losses"]
    assert min(losses) <= 0.5 * losses[0] and len(losses) <= 60
    assert tiers["part"]["batches"] == 4 and tiers["part"]["batch_seconds"] > 0
    assert tiers["part"]["epoch_seconds"] == pytest.approx(3 * found.batch_seconds, abs=0.02)
    assert found.wanted == Training() and found.batch_seconds > 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("tier ")] == list(tiers)


@pytest.mark.parametrize("ends", ["well", "badly", "in an error"])
def test_the_training_does_not_notice(tmp_path: Path, ends: str) -> None:
    def spoil(loss: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        seen.append(loss)
        if ends == "in an error" and len(seen) > 5:
            raise KeyError("labels")
        return loss * math.nan if ends == "badly" and len(seen) > 5 else loss

    seen: list[torch.Tensor] = []
    model = Model(spoil)
    model.body[3].eval()
    before = state(model)
    if ends == "well":
        climbed(model, tmp_path)
    else:
        with pytest.raises(TrainingFailed if ends == "badly" else KeyError):
            climbed(model, tmp_path)
        assert told(tmp_path)["one_batch"]["passed"] is False
    assert state(model) == before and all(weight.grad is None for weight in model.parameters())


def test_a_sample_with_nan_is_found_at_once(tmp_path: Path) -> None:
    spoilt = {"image": torch.full((1, 8, 8), math.nan), "labels": torch.tensor(0)}
    (cause, direction), tiers = refused(Model(), tmp_path, data=[spoilt] * 10)
    assert "loss of one sample is nan" in cause and "NaN" in direction
    assert list(tiers) == ["one_case"] and tiers["one_case"]["text"] == cause


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda loss, image: (image.sum() * 0 + 1).requires_grad_(), "no gradient reaches"),
        (lambda loss, image: 2 + (loss - loss.detach()).abs().sqrt(), "gradients of one sample are not finite"),
    ],
)
def test_a_loss_that_teaches_nothing_is_found_at_once(tmp_path: Path, spoil: Any, said: str) -> None:
    (cause, _), _ = refused(Model(spoil), tmp_path)
    assert said in cause


def test_a_batch_that_is_not_learned_says_whether_it_is_the_rate(tmp_path: Path) -> None:
    (cause, _), tiers = refused(Model(lambda loss, image: 10 + loss), tmp_path)
    assert "one batch is not learned" in cause and len(tiers["one_batch"]["losses"]) == 60

    class Decayed(Model):
        def forward(self, image: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": super().forward(image, labels)["loss"] + self.body[5].weight.pow(2).sum()}

    (cause, direction), _ = refused(Decayed(), tmp_path, wanted=Training(learning_rate=30))
    assert "at 30 it is not" in cause and "lower training.learning_rate" in direction
    _, tiers = climbed(Model(), tmp_path, wanted=Training(learning_rate=1e-9))
    assert tiers["one_batch"]["passed"] and "1e-09 is slow" in tiers["one_batch"]["text"]


def test_weights_that_know_the_batch_are_no_fault(tmp_path: Path) -> None:
    class Smoothed(Model):
        def forward(self, image: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": nn.functional.cross_entropy(self.body(image), labels, label_smoothing=0.2)}

    model, data = (
        Smoothed(),
        [{"image": torch.rand(1, 8, 8) + 9 * (n % 2), "labels": torch.tensor(n % 2)} for n in range(10)],
    )
    batch = torch.utils.data.default_collate(data)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        model(**batch)["loss"].backward()
        optimizer.step()
    _, tiers = climbed(model, tmp_path, data=data)
    assert "know it by heart" in tiers["one_batch"]["text"]


def test_a_loss_that_blows_up_is_the_rates_fault(tmp_path: Path) -> None:
    seen: list[int] = []

    def spoil(loss: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return loss * math.inf if len(seen) > 3 else loss

    (cause, direction), _ = refused(Model(spoil), tmp_path)
    assert "the loss became inf at step" in cause and "lower training.learning_rate (it is 0.01)" in direction


def test_without_time_the_tiers_measure_and_no_more(tmp_path: Path) -> None:
    found, tiers = climbed(Model(), tmp_path, seconds=1e-3)
    assert tiers["one_batch"]["passed"] and "not reached in the time" in tiers["one_batch"]["text"]
    assert tiers["part"]["passed"] and tiers["part"]["batches"] < 4 and "in the time" in tiers["part"]["text"]
    assert found.batch_seconds > 0


def test_memory_that_holds_a_smaller_batch_gets_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def spoil(loss: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        # More than any address space: torch itself refuses.
        return loss + torch.empty(2**50).sum() if len(image) > 2 else loss

    found, tiers = climbed(Model(spoil), tmp_path, wanted=Training(batch_size=8))
    assert (found.wanted.batch_size, found.wanted.accumulate) == (2, 4)
    assert tiers["one_batch"]["passed"] and tiers["part"]["batch_size"] == 2
    out = capsys.readouterr().out
    assert "does not hold a batch of 8; 4 are taken" in out and "does not hold a batch of 4; 2 are taken" in out


def test_memory_that_holds_no_sample_says_what_to_make_smaller(tmp_path: Path) -> None:
    (cause, direction), tiers = refused(Model(lambda loss, image: loss + torch.empty(2**50).sum()), tmp_path)
    assert "out of memory: it does not hold a batch of one" in cause and direction == "make smaller: the input"
    assert not tiers["one_case"]["passed"]


def test_a_batch_of_one_that_the_last_would_be_is_seen_before(tmp_path: Path) -> None:
    class Pooled(Model):
        def forward(self, image: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            normed = self.body[1](self.body[0](image).mean((2, 3), keepdim=True))
            return {"loss": nn.functional.cross_entropy(normed.flatten(1)[:, :2], labels)}

    (cause, direction), _ = refused(Pooled(), tmp_path, data=Data(9))
    assert "9 samples in batches of 4 leave one" in cause and "training.batch_size" in direction
    assert climbed(Pooled(), tmp_path, data=Data(10))[1]["one_case"]["passed"]


def test_processes_load_the_part_where_the_training_has_them(tmp_path: Path) -> None:
    found, tiers = climbed(Model(), tmp_path, wanted=Training(workers=1))
    assert tiers["part"]["batches"] == 4 and found.batch_seconds > 0
