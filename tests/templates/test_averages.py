"""Averaged weights of a training that is stopped and goes on: the same as if it had never been stopped."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback, set_seed

from shared.training import callbacks, saved
from shared.training.checkpoints import pick_checkpoint
from shared.training.configfile import Training


class Line(torch.nn.Module):
    """A batch norm, whose buffers are averaged too, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))

    def forward(self, image: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.layers(image)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class StopAfter(TrainerCallback):  # type: ignore[misc]
    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.steps:
            control.should_save = control.should_training_stop = True


def averaged(folder: Path, stop: int, resume: Path | None = None) -> tuple[dict[str, Any], Path]:
    """Twelve steps, stopped after `stop`. -> the average, and the checkpoint that was left."""
    set_seed(0)
    model, generator = Line(), torch.Generator().manual_seed(0)
    items = [{"image": torch.randn(4, generator=generator), "labels": torch.tensor(n % 2)} for n in range(16)]
    average = saved.averaged(model)
    trainer = callbacks.AveragingTrainer(
        model=model,
        args=callbacks.arguments(Training(epochs=3, batch_size=4), torch.device("cpu"), folder),
        train_dataset=items,
        callbacks=[StopAfter(stop)],
        optimizers=(torch.optim.AdamW(model.parameters(), lr=1e-3), None),
        augmented=lambda batch: batch,
        average=average,
    )
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    left = pick_checkpoint(folder)[0]
    assert left is not None
    return average.state_dict(), left


@pytest.mark.timeout(300)
def test_an_average_goes_on_where_it_was(tmp_path: Path) -> None:
    straight, _ = averaged(tmp_path / "straight", 12)
    half, stopped = averaged(tmp_path / "stopped", 6)
    assert stopped.name == "checkpoint-6" and int(half["n_averaged"]) == 2
    whole, left = averaged(tmp_path / "stopped", 12, stopped)
    assert left.name == "checkpoint-12" and int(whole["n_averaged"]) == 3
    for name, value in straight.items():
        torch.testing.assert_close(whole[name], value, msg=name)
    assert any(not torch.equal(half[name], value) for name, value in straight.items())
    # A torn average is a torn checkpoint.
    torn = left / callbacks.AVERAGED
    torn.write_bytes(torn.read_bytes()[:-100])
    assert pick_checkpoint(tmp_path / "stopped")[0] == stopped
