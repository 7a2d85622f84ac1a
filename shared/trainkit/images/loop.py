"""The Transformers Trainer with our callbacks: tiers, budget, best weights, progress. Not meant to be edited."""

import math
import signal
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
from shared.trainkit.images.task import Measured, Task
from shared.trainkit.progress import ProgressFile
from shared.trainkit.tiers import climb
from shared.trainkit.trainer import decayed_groups, device_name, training_arguments


@dataclass(frozen=True)
class Fitted:
    """The best weights and what they reach on the validation part."""

    model: torch.nn.Module
    measured: Measured
    epochs: float
    best_epoch: float
    device: str
    parameters: int


class Every(TrainerCallback):  # type: ignore[misc]
    """Evaluates at the end of every `epochs`-th epoch and of the last one."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        last = state.global_step >= state.max_steps
        if last or round(state.epoch or 0) % self.epochs == 0:
            control.should_evaluate = True


def fit(
    task: Task,
    config: Any,
    model: torch.nn.Module,
    sets: dict[str, Any],
    attempt: Attempt,
    resume_from: Path | None,
    begin: float,
    device: torch.device,
    folder: Path,
) -> Fitted | None:
    """None when SIGTERM asked to stop: a checkpoint is saved. Raises TrainingFailed."""
    train_set, val_set = sets["train"], sets["val"]
    model.to(device)
    _ = train_set[0]  # The first sample loads the augmentation, which is no part of a step's time.
    wanted = config.training
    seconds = callbacks.TimeBudget(wanted.train_seconds, begin, attempt.seconds).remaining()
    climbed = ranks.by_first(
        lambda: climb(
            model,
            lambda number: train_set[number],
            len(train_set),
            wanted,
            device,
            smaller="preprocess.input_shape, or model.width",
            seconds=seconds,
        )
    )
    wanted = climbed.wanted
    config = config.model_copy(update={"training": wanted})
    costs = task.costs(config, model, val_set, climbed.batch_seconds)
    steps = steps_an_epoch(len(train_set), wanted)
    every = task.every(config, steps)
    budget = callbacks.TimeBudget(wanted.train_seconds, begin, attempt.seconds, 2 + costs.evaluation + costs.final)
    epoch_seconds = steps * wanted.accumulate * climbed.batch_seconds + costs.evaluation / every
    fitting = min(budget.remaining() / epoch_seconds, wanted.epochs)
    several = f" on {ranks.count()} processes" if ranks.count() > 1 else ""
    ranks.say(f"about {epoch_seconds:.1f} s an epoch on {device.type}{several}; {fitting:.0f} epochs fit")
    if fitting < 1:
        ranks.say("not even one epoch fits into training.train_seconds; the result will be poor")

    optimizer = torch.optim.AdamW(decayed_groups(model, wanted.weight_decay), lr=wanted.learning_rate)
    total = steps * wanted.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: callbacks.rate_factor(budget, step, total))
    best = callbacks.KeepBest(folder / "best", wanted.metric, wanted.patience)
    stopwatch = callbacks.Stopwatch(budget, wanted.save_seconds, folder, attempt)
    progress = ProgressFile(Path("progress.jsonl")) if ranks.first() else None
    trainer = task.trainer(
        config,
        model=model,
        args=training_arguments(wanted, folder, device, eval_strategy="no"),
        train_dataset=train_set,
        eval_dataset=val_set,
        optimizers=(optimizer, schedule),
        callbacks=[
            callbacks.ProgressCallback(progress, wanted.metric, budget),
            best,
            stopwatch,
            Every(every),
        ],
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
        raise TrainingFailed(task.undefined.format(metric=wanted.metric))
    # Into the model itself, not a wrapper that the Trainer may have put around it.
    model.load_state_dict(safetensors.torch.load_file(best.weights))
    return Fitted(
        model=model,
        measured=task.measure(config, model, trainer, val_set),
        epochs=round(float(trainer.state.epoch or 0), 2),
        best_epoch=best.epoch,
        device=device_name(device),
        parameters=sum(weight.numel() for weight in model.parameters()),
    )


def steps_an_epoch(count: int, wanted: Any) -> int:
    """Of the optimizer; each process has its own share of the batches."""
    batches = math.ceil(math.ceil(count / wanted.batch_size) / ranks.count())
    steps: int = math.ceil(batches / wanted.accumulate)
    return steps
