"""The Transformers Trainer on patches, evaluated on whole images. Not meant to be edited."""

import math
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from config import Config
from dataset import Dataset, load_case
from inference import prepare, segment
from metrics import dice_scores, summary
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import PrinterCallback

from shared.trainkit import callbacks
from shared.trainkit.checkpoints import Attempt
from shared.trainkit.checks import TrainingFailed
from shared.trainkit.progress import ProgressFile
from shared.trainkit.trainer import decayed_groups, device_name, seconds_a_batch, training_arguments

EVALUATING = 0.1
"""Part of the time that evaluations may take, about."""


@dataclass(frozen=True)
class Fitted:
    """The best weights and what they reach on the validation images, each on its own grid."""

    model: torch.nn.Module
    metrics: dict[str, float | None]
    measured: int
    """Validation images behind `metrics`: all, unless time ran out."""
    epochs: float
    best_epoch: float
    device: str
    parameters: int


class Patches(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Several patches of each image make an epoch."""

    def __init__(self, images: Dataset, times: int) -> None:
        self.images = images
        self.times = times

    def __len__(self) -> int:
        return len(self.images) * self.times

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return self.images[number % len(self.images)]


class PatchTrainer(Trainer):
    """`whole` has the validation images that choose the weights."""

    whole: Dataset
    device_name: str
    seconds = 0.0
    """Of the last evaluation."""

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        begin = time.monotonic()
        figures = on_working_grid(self.model, self.whole, self.device_name)
        dice = math.nan if figures["dice"] is None else figures["dice"]
        found = {"eval_dice": dice, "eval_loss": 1 - dice}
        self.seconds = time.monotonic() - begin
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found


class EvaluateNowAndThen(TrainerCallback):
    """After an epoch when evaluations have taken no more than their share of the time, and after the last one."""

    def __init__(self, trainer: PatchTrainer) -> None:
        self.trainer = trainer
        self.last = -math.inf

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        due = time.monotonic() - self.last >= self.trainer.seconds * (1 / EVALUATING - 1)
        if due or state.global_step >= state.max_steps:
            control.should_evaluate = True

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.last = time.monotonic()


def fit(
    config: Config,
    model: torch.nn.Module,
    train_set: Dataset,
    val_set: Dataset,
    attempt: Attempt,
    resume_from: Path | None,
    begin: float,
    folder: Path,
) -> Fitted | None:
    """None when SIGTERM asked to stop: a checkpoint is saved. Raises TrainingFailed."""
    wanted = config.training
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    patches = Patches(train_set, config.sampling.patches_per_image)
    steps = math.ceil(math.ceil(len(patches) / wanted.batch_size) / wanted.accumulate)
    step_seconds = seconds_a_batch(model, lambda number: patches[number % len(patches)], wanted.batch_size, device)
    image_seconds = seconds_an_image(model, val_set, device.type)
    reserve = 2 + 1.3 * image_seconds * len(val_set)
    if wanted.train_seconds is not None:
        reserve = min(reserve, 0.3 * wanted.train_seconds)
    budget = callbacks.TimeBudget(wanted.train_seconds, begin, attempt.seconds, reserve)
    epoch_seconds = steps * wanted.accumulate * step_seconds
    fitting = budget.remaining() * (1 - EVALUATING) / epoch_seconds
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
    trainer = PatchTrainer(
        model=model,
        args=training_arguments(wanted, folder, device, eval_strategy="no"),
        train_dataset=patches,
        optimizers=(optimizer, schedule),
        callbacks=[progress, best, stopwatch],
    )
    trainer.device_name = device.type
    trainer.whole = selection(val_set, image_seconds, budget.remaining())
    trainer.add_callback(EvaluateNowAndThen(trainer))
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
            "dice was never defined: no validation image has a structure, and none was predicted\n"
            "give the split val images that have structures"
        )
    # Into the model itself, not a wrapper that the Trainer may have put around it.
    model.load_state_dict(safetensors.torch.load_file(best.weights))
    until = math.inf if wanted.train_seconds is None else begin + wanted.train_seconds
    scores = on_own_grids(model, val_set, device.type, until)
    return Fitted(
        model=model,
        metrics=summary(scores, val_set.label_names),
        measured=len(scores),
        epochs=round(float(trainer.state.epoch or 0), 2),
        best_epoch=best.epoch,
        device=device_name(device),
        parameters=sum(weight.numel() for weight in model.parameters()),
    )


def selection(images: Dataset, image_seconds: float, seconds: float) -> Dataset:
    """All validation images, or as many evenly drawn ones as can be looked at eight times, four at least."""
    if math.isinf(seconds):
        return images
    fitting = int(EVALUATING * seconds / 8 / max(image_seconds, 1e-6))
    count = min(len(images), max(4, fitting))
    drawn = [images.rows[int(place * len(images) / count)] for place in range(count)]
    return Dataset(images.config, drawn, images.values, train=False)


def on_working_grid(model: torch.nn.Module, images: Dataset, device: str) -> dict[str, float | None]:
    """Dice at the spacing of the network: cheaper than on the images' own grids, and enough to choose weights by."""
    model.eval()
    scores = []
    for row in images.rows:
        image, truth = images.case(row)
        found = segment(model, image.astype("float32"), truth.shape, images.how, device)
        scores.append(dice_scores(found, truth, len(images.values)))
    return summary(scores, images.label_names)


def on_own_grids(
    model: torch.nn.Module, images: Dataset, device: str, until: float = math.inf
) -> list[Sequence[float | None]]:
    """Dice of each image by structure, as the package predicts it; the first image always, others until that time."""
    model.eval()
    scores: list[Sequence[float | None]] = []
    for row in images.rows:
        if scores and time.monotonic() > until:
            break
        scan, truth = load_case(row, images.root, images.values)
        found = segment(model, prepare(scan, images.how), scan.grid.size, images.how, device)
        scores.append(dice_scores(found, scan.grid.turn(truth), len(images.values)))
    return scores


def seconds_an_image(model: torch.nn.Module, images: Dataset, device: str) -> float:
    """Of reading, predicting and measuring one validation image."""
    begin = time.monotonic()
    on_own_grids(model, images, device, until=-math.inf)
    return time.monotonic() - begin
