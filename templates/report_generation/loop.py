"""The Transformers Trainer with our callbacks, and reports written at each evaluation. Not meant to be edited."""

import math
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from config import Config, Generation
from metrics import image_dependence, scores
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from words import plain

from shared.trainkit import callbacks
from shared.trainkit.checkpoints import Attempt
from shared.trainkit.checks import TrainingFailed
from shared.trainkit.progress import ProgressFile
from shared.trainkit.trainer import decayed_groups, device_name, seconds_a_batch, training_arguments

DEPENDS = 0.05
"""Share of shuffles that may do as well as the right images before the model is said not to use them."""


@dataclass(frozen=True)
class Fitted:
    """The best weights and what they reach on the validation part. `examples` are (sample, its report, ours)."""

    model: torch.nn.Module
    metrics: dict[str, float | None]
    epochs: float
    best_epoch: float
    device: str
    parameters: int
    examples: list[tuple[str, str, str]]


class ReportTrainer(Trainer):  # type: ignore[misc]
    """An evaluation is the loss over the validation part and the scores of greedy reports on an even draw of it."""

    def __init__(self, *, length: int, judged: int, **fields: Any) -> None:
        super().__init__(**fields)
        self.length = length
        self.judged = judged

    def evaluation_loop(self, dataloader: Any, description: str, *arguments: Any, **more: Any) -> Any:
        more["prediction_loss_only"] = True
        found = super().evaluation_loop(dataloader, description, *arguments, **more)
        data: Any = self.eval_dataset
        drawn = np.unique(np.linspace(0, len(data) - 1, min(self.judged, len(data))).round().astype(int)).tolist()
        greedy = Generation(beams=1)
        answers = write_reports(self.model, data, drawn, self.length, self.args.eval_batch_size, greedy)
        measured = scores([plain(data.rows[number]["target"]) for number in drawn], answers)
        prefix = more.get("metric_key_prefix", "eval")
        found.metrics.update({f"{prefix}_{name}": value for name, value in measured.items()})
        return found


class Every(TrainerCallback):  # type: ignore[misc]
    """Evaluates at the end of every `epochs`-th epoch and of the last one."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        last = state.global_step >= state.max_steps
        if last or round(state.epoch or 0) % self.epochs == 0:
            control.should_evaluate = True


def write_reports(
    model: Any, data: Any, numbers: list[int], length: int, batch_size: int, how: Generation
) -> list[str]:
    """Reports of these samples, in their order."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    texts: list[str] = []
    for start in range(0, len(numbers), batch_size):
        batch = [data[number]["image"] for number in numbers[start : start + batch_size]]
        found = model.write(torch.stack(batch).to(device), length, **how.model_dump())
        texts += [data.words.decode(line) for line in found]
    model.train(training)
    return texts


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
    wanted, length = config.training, int(config.text.max_tokens)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    steps = math.ceil(math.ceil(len(train_set) / wanted.batch_size) / wanted.accumulate)
    every = math.ceil(wanted.evaluate_steps / steps)
    _ = train_set[0]  # The first sample loads the augmentation, which is no part of a step's time.
    step_seconds = seconds_a_batch(model, lambda number: train_set[number % len(train_set)], wanted.batch_size, device)
    writing = seconds_a_write(model, val_set, length, wanted.batch_size)
    # An evaluation has no backward pass: about a third of the work.
    judged = min(wanted.judged, len(val_set))
    eval_seconds = batches(len(val_set), wanted) * step_seconds / 3 + batches(judged, wanted) * writing
    # Beams are rows of one batch: three cost far less than three times.
    final = batches(len(val_set), wanted) * writing * (1 + 0.3 * (config.generation.beams - 1))
    budget = callbacks.TimeBudget(wanted.train_seconds, begin, attempt.seconds, 2 + eval_seconds + 1.5 * final)
    epoch_seconds = steps * wanted.accumulate * step_seconds + eval_seconds / every
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
    trainer = ReportTrainer(
        length=length,
        judged=wanted.judged,
        model=model,
        args=training_arguments(wanted, folder, device, eval_strategy="no"),
        train_dataset=train_set,
        eval_dataset=val_set,
        optimizers=(optimizer, schedule),
        callbacks=[progress, best, stopwatch, Every(every)],
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
            "no evaluation was reached, or its loss was not finite\n"
            "raise training.train_seconds, or lower training.learning_rate (by ten)"
        )
    # Into the model itself, not a wrapper that the Trainer may have put around it.
    model.load_state_dict(safetensors.torch.load_file(best.weights))
    everything = list(range(len(val_set)))
    answers = write_reports(model, val_set, everything, length, wanted.batch_size, config.generation)
    references = [plain(row["target"]) for row in val_set.rows]
    patients = [str(row["patient"]) for row in val_set.rows]
    return Fitted(
        model=model,
        metrics={**scores(references, answers), **image_dependence(references, answers, patients)},
        epochs=round(float(trainer.state.epoch or 0), 2),
        best_epoch=best.epoch,
        device=device_name(device),
        parameters=sum(weight.numel() for weight in model.parameters()),
        examples=[
            (str(row["sample_id"]), reference, answer)
            for row, reference, answer in zip(val_set.rows, references, answers, strict=True)
        ],
    )


def batches(count: int, wanted: Any) -> int:
    return math.ceil(count / wanted.batch_size)


def seconds_a_write(model: Any, data: Any, length: int, batch_size: int) -> float:
    """Seconds for the reports of one batch, written greedily to their full length. Leaves the random state as it is."""
    random_state = torch.get_rng_state()
    numbers = list(range(min(batch_size, len(data))))
    write_reports(model, data, numbers[:1], 2, 1, Generation(beams=1))
    begin = time.monotonic()
    write_reports(model, data, numbers, length, batch_size, Generation(beams=1))
    torch.set_rng_state(random_state)
    return time.monotonic() - begin
