"""The Transformers Trainer on patches, evaluated on whole images. Not meant to be edited."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

from shared.trainkit import callbacks, fitting, ranks
from shared.trainkit.checkpoints import Attempt
from shared.trainkit.checks import TrainingFailed
from shared.trainkit.exported.segmenter.inference import prepare, segment
from shared.trainkit.segmentation.cases import Cases, load_case
from shared.trainkit.segmentation.metrics import CaseScore, of_all_cases, score_case, summary
from shared.trainkit.tiers import climb
from shared.trainkit.trainer import device_name

EVALUATING = 0.1
"""Part of the time that evaluations may take, about."""
UNDEFINED = (
    "dice was never defined: no validation image has a structure, and none was predicted\n"
    "give the split val images that have structures"
)
SMALLER = "preprocess.patch_size or patch_voxels, or model.width"


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


class Patches(torch.utils.data.Dataset[dict[str, torch.Tensor]]):  # type: ignore[misc]
    """Several patches of each image make an epoch, as the images say."""

    def __init__(self, images: Cases, times: int) -> None:
        self.images = images
        self.turns = images.turns(times)

    def __len__(self) -> int:
        return len(self.turns)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        turn = self.turns[number]
        item: dict[str, torch.Tensor] = self.images[turn[int(torch.randint(len(turn), ()))]]
        return item


class PatchTrainer(Trainer):  # type: ignore[misc]
    """`whole` has the validation images that choose the weights."""

    whole: Cases
    device_name: str
    seconds = 0.0
    """Of the last evaluation."""

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        begin = time.monotonic()
        mine = on_working_grid(self.model, self.whole, self.device_name, ranks.number(), ranks.count())
        scores = [score for part in ranks.gathered(mine) for score in part]
        dice = summary(scores, self.whole.label_names)["dice"]
        # Of two equals, the one that finds less where there is nothing.
        found = {"eval_dice": math.nan if dice is None else dice, "eval_loss": 1 - (of_all_cases(scores) or 0.0)}
        self.seconds = time.monotonic() - begin
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
        return found


class EvaluateNowAndThen(TrainerCallback):  # type: ignore[misc]
    """After an epoch when evaluations have taken no more than their share of the time, and after the last one."""

    def __init__(self, trainer: PatchTrainer) -> None:
        self.trainer = trainer
        self.last = -math.inf

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        due = time.monotonic() - self.last >= self.trainer.seconds * (1 / EVALUATING - 1)
        # Clocks differ: one process for which it is time takes the others with it.
        if ranks.most(due)[0] or state.global_step >= state.max_steps:
            control.should_evaluate = True

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.last = time.monotonic()


def fit(
    config: Any,
    model: torch.nn.Module,
    train_set: Cases,
    val_set: Cases,
    attempt: Attempt,
    resume_from: Path | None,
    begin: float,
    device: torch.device,
    folder: Path,
) -> Fitted | None:
    """None when SIGTERM asked to stop: a checkpoint is saved. Raises TrainingFailed."""
    wanted = config.training
    model.to(device)
    patches = Patches(train_set, config.sampling.patches_per_image)
    (image_seconds,) = ranks.most(seconds_an_image(model, val_set, device.type))
    reserve = 2 + 1.3 * image_seconds * len(val_set)
    if wanted.train_seconds is not None:
        reserve = min(reserve, 0.3 * wanted.train_seconds)
    budget = callbacks.TimeBudget(wanted.train_seconds, begin, attempt.seconds, reserve)
    left = budget.remaining()
    climbed = ranks.by_first(
        lambda: climb(model, patches.__getitem__, len(patches), wanted, device, smaller=SMALLER, seconds=left)
    )
    wanted = climbed.wanted
    budget.agree()
    epoch_seconds = fitting.batches_an_epoch(len(patches), wanted) * climbed.batch_seconds
    fitting.tell_estimate(epoch_seconds, budget.remaining() * (1 - EVALUATING), wanted, device)

    def make(**fields: Any) -> PatchTrainer:
        trainer = PatchTrainer(train_dataset=patches, **fields)
        trainer.device_name = device.type
        trainer.whole = selection(val_set, image_seconds, budget.remaining())
        trainer.add_callback(EvaluateNowAndThen(trainer))
        return trainer

    steps = fitting.steps_an_epoch(len(patches), wanted)
    looped = fitting.train(make, model, wanted, steps, budget, attempt, resume_from, device, folder, UNDEFINED)
    if looped is None:
        return None
    until = math.inf if wanted.train_seconds is None else begin + wanted.train_seconds
    scores = ranks.by_first(lambda: on_own_grids(model, val_set, device.type, until))
    return Fitted(
        model=model,
        metrics=summary(scores, val_set.label_names),
        measured=len(scores),
        epochs=looped.epochs,
        best_epoch=looped.best_epoch,
        device=device_name(device),
        parameters=sum(weight.numel() for weight in model.parameters()),
    )


def too_large(config: Any) -> TrainingFailed:
    patch = " x ".join(map(str, config.preprocess.patch_size))
    return TrainingFailed(
        f"out of memory: it does not hold a batch of {config.training.batch_size} patches of {patch} voxels\n"
        f"halve training.batch_size and double training.accumulate; with a batch of one, make smaller: {SMALLER}"
    )


def selection(images: Cases, image_seconds: float, seconds: float) -> Cases:
    """All validation images, or as many evenly drawn ones as can be looked at eight times, four at least."""
    if math.isinf(seconds):
        return images
    fitting = int(EVALUATING * seconds / 8 / max(image_seconds, 1e-6))
    count = min(len(images), max(4, fitting))
    drawn = [images.rows[int(place * len(images) / count)] for place in range(count)]
    return type(images)(images.config, drawn, images.values, train=False)


def on_working_grid(
    model: torch.nn.Module, images: Cases, device: str, first: int = 0, step: int = 1
) -> list[CaseScore]:
    """Dice at the spacing of the network: cheaper than on the images' own grids, and enough to choose weights by. Of
    every `step`-th image from `first` on."""
    model.eval()
    scores = []
    for row in images.rows[first::step]:
        image, truth = images.case(row)
        found = segment(model, image.astype("float32"), truth.shape, images.how, device)
        scores.append(score_case(found, truth, len(images.values)))
    return scores


def on_own_grids(model: torch.nn.Module, images: Cases, device: str, until: float = math.inf) -> list[CaseScore]:
    """Dice of each image by structure, as the package predicts it; the first image always, others until that time."""
    model.eval()
    scores: list[CaseScore] = []
    for row in images.rows:
        if scores and time.monotonic() > until:
            break
        scan, truth = load_case(row, images.root, images.values)
        found = segment(model, prepare(scan, images.how), scan.grid.size, images.how, device)
        scores.append(score_case(found, scan.grid.turn(truth), len(images.values)))
    return scores


def seconds_an_image(model: torch.nn.Module, images: Cases, device: str) -> float:
    """Of reading, predicting and measuring one validation image."""
    begin = time.monotonic()
    on_own_grids(model, images, device, until=-math.inf)
    return time.monotonic() - begin
