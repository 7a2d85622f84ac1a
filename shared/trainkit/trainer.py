"""What the templates ask of a Transformers Trainer: its arguments and the optimizer's groups."""

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

from shared.trainkit import ranks


def training_arguments(wanted: Any, folder: Path, device: torch.device, **more: Any) -> TrainingArguments:
    """`wanted` is the section `training` of a configuration. Saves are left to callbacks.Stopwatch."""
    on_gpu = device.type == "cuda"
    mixed = wanted.precision
    if mixed == "auto":
        mixed = "fp32" if not on_gpu else "bf16" if torch.cuda.is_bf16_supported() else "fp16"
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
        "fp16": mixed == "fp16" and on_gpu,
        "dataloader_num_workers": auto_workers() if wanted.workers == "auto" else wanted.workers,
        "dataloader_pin_memory": on_gpu,
        "remove_unused_columns": False,
        "label_names": ["labels"],
        "report_to": "none",
        "disable_tqdm": True,
    }
    arguments = TrainingArguments(**(fields | more))
    # Several GPUs are for several processes: the Trainer would else cut each batch into pieces, and steps would not be
    # what was counted.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


def auto_workers() -> int:
    """Of each process; none on few cores or where /dev/shm is too small to pass batches through."""
    cores = len(os.sched_getaffinity(0)) // ranks.count()
    shm = Path("/dev/shm")
    if cores < 8 or not shm.is_dir() or shutil.disk_usage(shm).free < 512 * 2**20:
        return 0
    return min(8, cores // 2)


def decayed_groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Norms and biases are not decayed."""
    flat = [weight for weight in model.parameters() if weight.ndim < 2]
    deep = [weight for weight in model.parameters() if weight.ndim >= 2]
    return [{"params": deep, "weight_decay": weight_decay}, {"params": flat, "weight_decay": 0.0}]


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({torch.get_num_threads()} threads)"
