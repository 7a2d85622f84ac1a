"""The Transformers Trainer with our callbacks: tiers, budget, best weights, progress. Not meant to be edited."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from shared.trainkit import callbacks, fitting, ranks
from shared.trainkit.checkpoints import Attempt
from shared.trainkit.images.task import Measured, Task
from shared.trainkit.tiers import climb
from shared.trainkit.trainer import device_name


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
    steps = fitting.steps_an_epoch(len(train_set), wanted)
    every = task.every(config, steps)
    budget = callbacks.TimeBudget(wanted.train_seconds, begin, attempt.seconds, 2 + costs.evaluation + costs.final)
    epoch_seconds = steps * wanted.accumulate * climbed.batch_seconds + costs.evaluation / every
    fitting.tell_estimate(epoch_seconds, budget.remaining(), wanted, device)

    def make(**fields: Any) -> Any:
        trainer = task.trainer(config, train_dataset=train_set, eval_dataset=val_set, **fields)
        trainer.add_callback(Every(every))
        return trainer

    undefined = task.undefined.format(metric=wanted.metric)
    looped = fitting.train(make, model, wanted, steps, budget, attempt, resume_from, device, folder, undefined)
    if looped is None:
        return None
    return Fitted(
        model=model,
        measured=task.measure(config, model, looped.trainer, val_set),
        epochs=looped.epochs,
        best_epoch=looped.best_epoch,
        device=device_name(device),
        parameters=sum(weight.numel() for weight in model.parameters()),
    )
