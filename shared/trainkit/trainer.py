"""What the templates ask of a Transformers Trainer: its arguments, the optimizer's groups, the time of a step."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments


def training_arguments(wanted: Any, folder: Path, device: torch.device, **more: Any) -> TrainingArguments:
    """`wanted` is the section `training` of a configuration. Saves are left to callbacks.Stopwatch."""
    on_gpu = device.type == "cuda"
    mixed = wanted.precision if on_gpu else "fp32"
    if mixed == "auto":
        mixed = "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    fields: dict[str, Any] = {
        "output_dir": str(folder),
        "num_train_epochs": wanted.epochs,
        "per_device_train_batch_size": wanted.batch_size,
        "per_device_eval_batch_size": wanted.batch_size,
        "gradient_accumulation_steps": wanted.accumulate,
        "max_grad_norm": 1.0,
        "eval_strategy": "epoch",
        "logging_strategy": "epoch",
        "logging_nan_inf_filter": False,  # it would hide a NaN loss
        "save_strategy": "no",
        "save_total_limit": 2,
        "seed": wanted.seed,
        "use_cpu": not on_gpu,
        "bf16": mixed == "bf16",
        "fp16": mixed == "fp16",
        "dataloader_num_workers": auto_workers() if wanted.workers == "auto" else wanted.workers,
        "dataloader_pin_memory": on_gpu,
        "remove_unused_columns": False,
        "label_names": ["labels"],
        "report_to": "none",
        "disable_tqdm": True,
    }
    return TrainingArguments(**(fields | more))


def auto_workers() -> int:
    """None on few cores or where /dev/shm is too small to pass batches through."""
    cores = len(os.sched_getaffinity(0))
    shm = Path("/dev/shm")
    if cores < 8 or not shm.is_dir() or shutil.disk_usage(shm).free < 512 * 2**20:
        return 0
    return min(8, cores // 2)


def decayed_groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Norms and biases are not decayed."""
    flat = [weight for weight in model.parameters() if weight.ndim < 2]
    deep = [weight for weight in model.parameters() if weight.ndim >= 2]
    return [{"params": deep, "weight_decay": weight_decay}, {"params": flat, "weight_decay": 0.0}]


def seconds_a_batch(
    model: torch.nn.Module, item: Callable[[int], Mapping[str, torch.Tensor]], size: int, device: torch.device
) -> float:
    """Seconds for one batch, loading and augmentation included. Leaves weights and random state as they are."""

    def step() -> float:
        begin = time.monotonic()
        batch = [item(number) for number in range(size)]
        inputs = {key: torch.stack([found[key] for found in batch]).to(device) for key in batch[0]}
        model(**inputs)["loss"].backward()
        model.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.monotonic() - begin

    state = {name: value.clone() for name, value in model.state_dict().items()}
    random_state = torch.get_rng_state()
    model.train()
    first = step()
    # The first run warms up; where it takes long, it is near enough.
    seconds = first if first > 10 else min(step(), step())
    # Batch norm counts what it sees; the first epoch must find it untouched.
    model.load_state_dict(state)
    torch.set_rng_state(random_state)
    return seconds


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({torch.get_num_threads()} threads)"
