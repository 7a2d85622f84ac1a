"""Several processes of one training, one a GPU (torchrun): the first speaks and writes, the others only compute.

What depends on clocks, signals and files is asked here, so that all do the same. With one process all of it is nothing.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed

Made = TypeVar("Made")
GRACE = 60.0
"""Seconds in which the first process ends after it has failed."""


def join() -> torch.device:
    """Enter the group that torchrun started this process for, if any; -> the device to compute on."""
    on_gpu = torch.cuda.is_available()
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return torch.device("cuda" if on_gpu else "cpu")
    place = int(os.environ["LOCAL_RANK"])
    if on_gpu:
        torch.cuda.set_device(place)
    if not distributed.is_initialized():
        # The others wait while the first reads all images; a process that dies ends all of them anyway.
        wait = timedelta(days=1)
        distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=wait)
    return torch.device("cuda", place) if on_gpu else torch.device("cpu")


def leave(code: int) -> int:
    """Leave the group with this exit code. A process of several ends here: DistributedDataParallel keeps gloo's threads
    alive, and a normal exit with such threads now and then aborts (torch 2.x, "terminate called")."""
    if distributed.is_initialized():
        distributed.destroy_process_group()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def count() -> int:
    return int(distributed.get_world_size()) if distributed.is_initialized() else 1


def number() -> int:
    return int(distributed.get_rank()) if distributed.is_initialized() else 0


def first() -> bool:
    return number() == 0


def say(text: str) -> None:
    if first():
        print(text, flush=True)


def by_first(make: Callable[[], Made]) -> Made:
    """What the first process makes, in all; where it raises, the others end quietly after it."""
    if count() == 1:
        return make()
    told: list[Made | None] = [None]
    whole = [False]
    try:
        if first():
            told, whole = [make()], [True]
    finally:
        distributed.broadcast_object_list(whole, src=0)
    if not whole[0]:
        # Who started all of them ends the others when the first has ended, whose exit code is the one that counts.
        time.sleep(GRACE)
        raise SystemExit(1)
    distributed.broadcast_object_list(told, src=0)
    return told[0]  # type: ignore[return-value]


def most(*values: float) -> list[float]:
    """The largest of each value over the processes."""
    if count() == 1:
        return list(values)
    found = torch.tensor(values, dtype=torch.float64)
    distributed.all_reduce(found, distributed.ReduceOp.MAX)
    return [float(value) for value in found]


def gathered(mine: list[Made]) -> list[list[Made]]:
    """The list of each process, in their order."""
    if count() == 1:
        return [mine]
    found: list[list[Made]] = [[] for _ in range(count())]
    distributed.all_gather_object(found, mine)
    return found


def share_buffers(model: torch.nn.Module) -> None:
    """Those of the first: running statistics of norms are each process's own, whatever the gradients do."""
    for buffer in model.buffers() if count() > 1 else ():
        distributed.broadcast(buffer, 0)


def wait() -> None:
    """For what the first has written."""
    by_first(lambda: None)
