"""The loop that the templates train by: a Transformers Trainer with our callbacks, and what a training ends with."""

import math
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from shared.trainkit import callbacks, ranks
from shared.trainkit.checkpoints import Attempt
from shared.trainkit.checks import TrainingFailed
from shared.trainkit.progress import ProgressFile
from shared.trainkit.trainer import decayed_groups, training_arguments


@dataclass(frozen=True)
class Looped:
    trainer: Any
    epochs: float
    best_epoch: float


class OneModel(TrainerCallback):  # type: ignore[misc]
    """All processes evaluate what the first one saves."""

    def on_epoch_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        ranks.share_buffers(model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if control.should_evaluate:
            ranks.share_buffers(model)


def steps_an_epoch(count: int, wanted: Any) -> int:
    """Of the optimizer; each process has its own share of the batches."""
    steps: int = math.ceil(batches_an_epoch(count, wanted) / wanted.accumulate)
    return steps


def batches_an_epoch(count: int, wanted: Any) -> int:
    batches: int = math.ceil(math.ceil(count / wanted.batch_size) / ranks.count())
    return batches


def tell_estimate(epoch_seconds: float, seconds: float, wanted: Any, device: torch.device) -> None:
    """`seconds` are there for training."""
    fitting = min(seconds / epoch_seconds, wanted.epochs)
    several = f" on {ranks.count()} processes" if ranks.count() > 1 else ""
    ranks.say(f"about {epoch_seconds:.1f} s an epoch on {device.type}{several}; {fitting:.0f} epochs fit")
    if fitting < 1:
        ranks.say("not even one epoch fits into training.train_seconds; the result will be poor")


def train(
    make: Callable[..., Any],
    model: torch.nn.Module,
    wanted: Any,
    steps: int,
    budget: callbacks.TimeBudget,
    attempt: Attempt,
    resume_from: Path | None,
    device: torch.device,
    folder: Path,
    undefined: str,
) -> Looped | None:
    """Train `model`, which has the best weights in the end; None when SIGTERM asked to stop: a checkpoint is saved.

    `make(**fields)` gives the Trainer, whose evaluations tell `wanted.metric` (`wanted`: the section `training`);
    `steps` are those of an epoch. Raises TrainingFailed, with `undefined` where the metric was never defined.
    """
    optimizer = torch.optim.AdamW(decayed_groups(model, wanted.weight_decay), lr=wanted.learning_rate, fused=True)
    total = steps * wanted.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: callbacks.rate_factor(budget, step, total))
    best = callbacks.KeepBest(folder / "best", wanted.metric, wanted.patience)
    stopwatch = callbacks.Stopwatch(budget, wanted.save_seconds, folder, attempt)
    progress = ProgressFile(Path("progress.jsonl")) if ranks.first() else None
    trainer = make(
        model=model,
        args=training_arguments(wanted, folder, device, eval_strategy="no"),
        optimizers=(optimizer, schedule),
        callbacks=[callbacks.ProgressCallback(progress, wanted.metric, budget), best, stopwatch, OneModel()],
    )
    trainer.remove_callback(PrinterCallback)
    previous = signal.signal(signal.SIGTERM, lambda *_: setattr(stopwatch, "asked_to_stop", True))
    try:
        trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
    finally:
        signal.signal(signal.SIGTERM, previous)
    if stopwatch.asked_to_stop:
        return None
    ranks.wait()
    if not best.weights.exists():
        raise TrainingFailed(undefined)
    # Into the model itself, not a wrapper that the Trainer may have put around it.
    model.load_state_dict(safetensors.torch.load_file(best.weights))
    return Looped(trainer, round(float(trainer.state.epoch or 0), 2), best.epoch)
