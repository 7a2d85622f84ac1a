"""What the machine gives a training: processes that load data, memory, precision, the name of what it computes on."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from shared.training import ranks
from shared.training.checks import TrainingFailed

OUT_OF_MEMORY = (MemoryError, RuntimeError)
"""What NumPy and torch raise, among other things; `lacks_memory` tells them apart."""


def workers(wanted: Any) -> int:
    """Processes that load data for each that trains. auto: none on few cores or where /dev/shm holds few batches."""
    if wanted.workers != "auto":
        return int(wanted.workers)
    cores = len(os.sched_getaffinity(0)) // ranks.count()
    shm = Path("/dev/shm")
    if cores < 8 or not shm.is_dir() or shutil.disk_usage(shm).free < 512 * 2**20:
        return 0
    return min(8, cores // 2)


@contextmanager
def within_memory(batch: Callable[[], str], smaller: str) -> Iterator[None]:
    """Lack of memory for `batch()` becomes TrainingFailed, in two lines; `smaller` is what to make smaller at last."""
    try:
        yield
    except OUT_OF_MEMORY as error:
        if not lacks_memory(error):
            raise
        raise TrainingFailed(
            f"out of memory: it does not hold {batch()}\n"
            f"halve training.batch_size and double training.accumulate; with a batch of one, make smaller: {smaller}"
        ) from None


def lacks_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def gpu_memory_mb() -> float | None:
    """The most that was held; None without a GPU."""
    return torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else None


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({torch.get_num_threads()} threads)"


def mixed_precision(wanted: Any, device: torch.device) -> torch.dtype | None:
    """What `precision` of the section `training` means on this device; None is float32."""
    on_gpu, precision = device.type == "cuda", getattr(wanted, "precision", "fp32")
    if precision == "auto":
        precision = "fp32" if not on_gpu else "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    return torch.float16 if precision == "fp16" and on_gpu else torch.bfloat16 if precision == "bf16" else None
