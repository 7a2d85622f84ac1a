"""The Transformers Trainer with our callbacks: budget, best weights, progress. Not meant to be edited."""

import math
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from config import Config, Training
from metrics import scores
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from shared.trainkit import callbacks
from shared.trainkit.checkpoints import Attempt
from shared.trainkit.checks import TrainingFailed
from shared.trainkit.progress import ProgressFile


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
    step_seconds = measure(model, train_set, wanted, device)
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

    optimizer = torch.optim.AdamW(groups(model, wanted.weight_decay), lr=wanted.learning_rate)
    total = steps * wanted.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: callbacks.rate_factor(budget, step, total))
    best = callbacks.KeepBest(folder / "best", wanted.metric, wanted.patience)
    stopwatch = callbacks.Stopwatch(budget, wanted.save_seconds, folder, attempt)
    progress = callbacks.ProgressCallback(ProgressFile(Path("progress.jsonl")), wanted.metric, budget)
    trainer = Trainer(
        model=model,
        args=arguments(wanted, folder, device),
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
        device=torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({torch.get_num_threads()} threads)",
        parameters=sum(weight.numel() for weight in model.parameters()),
    )


def arguments(wanted: Training, folder: Path, device: torch.device) -> TrainingArguments:
    on_gpu = device.type == "cuda"
    mixed = wanted.precision if on_gpu else "fp32"
    if mixed == "auto":
        mixed = "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    workers = auto_workers() if wanted.workers == "auto" else wanted.workers
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=wanted.epochs,
        per_device_train_batch_size=wanted.batch_size,
        per_device_eval_batch_size=wanted.batch_size,
        gradient_accumulation_steps=wanted.accumulate,
        max_grad_norm=1.0,
        eval_strategy="epoch",
        logging_strategy="epoch",
        logging_nan_inf_filter=False,  # it would hide a NaN loss
        save_strategy="no",  # Stopwatch asks for saves
        save_total_limit=2,
        seed=wanted.seed,
        use_cpu=not on_gpu,
        bf16=mixed == "bf16",
        fp16=mixed == "fp16",
        dataloader_num_workers=workers,
        dataloader_pin_memory=on_gpu,
        remove_unused_columns=False,
        label_names=["labels"],
        report_to="none",
        disable_tqdm=True,
    )


def auto_workers() -> int:
    """None on few cores or where /dev/shm is too small to pass batches through."""
    cores = len(os.sched_getaffinity(0))
    shm = Path("/dev/shm")
    if cores < 8 or not shm.is_dir() or shutil.disk_usage(shm).free < 512 * 2**20:
        return 0
    return min(8, cores // 2)


def groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Norms and biases are not decayed."""
    flat = [weight for weight in model.parameters() if weight.ndim < 2]
    deep = [weight for weight in model.parameters() if weight.ndim >= 2]
    return [{"params": deep, "weight_decay": weight_decay}, {"params": flat, "weight_decay": 0.0}]


def measure(model: torch.nn.Module, train_set: Any, wanted: Training, device: torch.device) -> float:
    """Seconds for one batch, loading and augmentation included. Leaves the weights as they are."""

    def step() -> None:
        batch = [train_set[number % len(train_set)] for number in range(wanted.batch_size)]
        inputs = {key: torch.stack([item[key] for item in batch]).to(device) for key in batch[0]}
        model(**inputs)["loss"].backward()
        model.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.synchronize()

    state = {name: value.clone() for name, value in model.state_dict().items()}
    random_state = torch.get_rng_state()
    model.train()
    begin = time.monotonic()
    step()
    first = time.monotonic() - begin
    # The first run warms up; where it takes long, it is near enough.
    seconds = first if first > 10 else callbacks.seconds_a_step(step)
    # Batch norm counts what it sees; the first epoch must find it untouched.
    model.load_state_dict(state)
    torch.set_rng_state(random_state)
    return seconds
