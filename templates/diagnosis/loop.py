"""The Transformers Trainer with our callbacks: budget, best weights, progress. Not meant to be edited."""

import math
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from config import Config
from metrics import scores
from transformers import Trainer
from transformers.trainer_callback import PrinterCallback

from shared.trainkit import callbacks
from shared.trainkit.checkpoints import Attempt
from shared.trainkit.checks import TrainingFailed
from shared.trainkit.progress import ProgressFile
from shared.trainkit.trainer import decayed_groups, device_name, seconds_a_batch, training_arguments


@dataclass(frozen=True)
class Fitted:
    """The best weights and what they reach on the validation part."""

    model: torch.nn.Module
    metrics: dict[str, float | None]
    epochs: float
    best_epoch: float
    device: str
    parameters: int


def fit(
    config: Config,
    model: torch.nn.Module,
    train_set: Any,
    val_set: Any,
    attempt: Attempt,
    resume_from: Path | None,
    begin: float,
    folder: Path,
) -> Fitted | None:
    """None when SIGTERM asked to stop: a checkpoint is saved. Raises TrainingFailed."""
    wanted = config.training
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    steps = math.ceil(math.ceil(len(train_set) / wanted.batch_size) / wanted.accumulate)
    step_seconds = seconds_a_batch(model, lambda number: train_set[number % len(train_set)], wanted.batch_size, device)
    # An evaluation has no backward pass: about a third of the work.
    eval_seconds = step_seconds / 3 * math.ceil(len(val_set) / wanted.batch_size)
    reserve = 2 + 2 * eval_seconds
    budget = callbacks.TimeBudget(wanted.train_seconds, begin, attempt.seconds, reserve)
    epoch_seconds = steps * wanted.accumulate * step_seconds + eval_seconds
    fitting = budget.remaining() / epoch_seconds
    print(
        f"about {epoch_seconds:.1f} s an epoch on {device.type}; {min(fitting, wanted.epochs):.0f} epochs fit",
        flush=True,
    )
    if fitting < 1:
        print("not even one epoch fits into training.train_seconds; the result will be poor", flush=True)

    optimizer = torch.optim.AdamW(decayed_groups(model, wanted.weight_decay), lr=wanted.learning_rate)
    total = steps * wanted.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: callbacks.rate_factor(budget, step, total))
    best = callbacks.KeepBest(folder / "best", wanted.metric, wanted.patience)
    stopwatch = callbacks.Stopwatch(budget, wanted.save_seconds, folder, attempt)
    progress = callbacks.ProgressCallback(ProgressFile(Path("progress.jsonl")), wanted.metric, budget)
    trainer = Trainer(
        model=model,
        args=training_arguments(wanted, folder, device),
        train_dataset=train_set,
        eval_dataset=val_set,
        compute_metrics=lambda found: {
            name: math.nan if value is None else value
            for name, value in scores(found.predictions, found.label_ids, bool(config.multi_label)).items()
        },
        optimizers=(optimizer, schedule),
        callbacks=[progress, best, stopwatch],
    )
    trainer.remove_callback(PrinterCallback)
    previous = signal.signal(signal.SIGTERM, lambda *_: setattr(stopwatch, "asked_to_stop", True))
    try:
        trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
    finally:
        signal.signal(signal.SIGTERM, previous)
    if stopwatch.asked_to_stop:
        return None
    if not best.weights.exists():
        raise TrainingFailed(
            f"{wanted.metric} was never defined on the validation part\n"
            "give the split val samples of at least two classes, or choose training.metric accuracy"
        )
    # Into the model itself, not a wrapper that the Trainer may have put around it.
    model.load_state_dict(safetensors.torch.load_file(best.weights))
    found = trainer.predict(val_set).metrics
    names = ("auc_macro", "balanced_accuracy", "accuracy", "f1_macro")
    figures = {name: float(found[f"test_{name}"]) for name in names}
    return Fitted(
        model=model,
        metrics={name: value if math.isfinite(value) else None for name, value in figures.items()},
        epochs=round(float(trainer.state.epoch or 0), 2),
        best_epoch=best.epoch,
        device=device_name(device),
        parameters=sum(weight.numel() for weight in model.parameters()),
    )
