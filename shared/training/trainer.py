"""What the machine gives a training: processes that load data, and the name of what it computes on."""

import os
import shutil
from pathlib import Path

import torch

from shared.training import ranks


def auto_workers() -> int:
    """Of each process; none on few cores or where /dev/shm is too small to pass batches through."""
    cores = len(os.sched_getaffinity(0)) // ranks.count()
    shm = Path("/dev/shm")
    if cores < 8 or not shm.is_dir() or shutil.disk_usage(shm).free < 512 * 2**20:
        return 0
    return min(8, cores // 2)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({torch.get_num_threads()} threads)"
