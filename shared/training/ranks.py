"""Several processes of one training, one a GPU (torchrun): the first speaks and writes, the others only compute.

What depends on clocks, signals and files is asked here, so that all do the same. With one process all of it is nothing.
"""

import os
import socket
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


def wanted_processes(asked: int | str) -> int:
    """Of `training.processes`; 1 in a process that was started so, and where processes cannot talk to each other."""
    if "LOCAL_RANK" in os.environ:
        return 1
    count = torch.cuda.device_count() if asked == "auto" else int(asked)
    if count > 1 and not can_talk():
        print(f"one process in place of {count}: they could not reach each other here", flush=True)
        return 1
    return max(1, count)


def can_talk() -> bool:
    """A sandbox may have no network at all, not even its own."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()[:2], 5):
            return True
    except OSError:
        return False


def launch(processes: int) -> int:
    """Run this very command in so many processes, as torchrun does; -> the exit code of the first that failed, or 143
    after SIGTERM."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    meeting = {"rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:0", "local_addr": "127.0.0.1"}
    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=processes, max_restarts=0, **meeting)
    try:
        elastic_launch(config, sys.executable)("-u", *sys.argv)
    except ChildFailedError as error:
        return int(error.get_first_failure()[1].exitcode)
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0


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


def gathered(mine: list[Made]) -> list[Made]:
    """What all processes have made of their shares `[number() :: count()]`, in the order of the whole."""
    if count() == 1:
        return mine
    found: list[list[Made]] = [[] for _ in range(count())]
    distributed.all_gather_object(found, mine)
    return [share[place] for place in range(max(map(len, found))) for share in found if place < len(share)]


def together(model: torch.nn.Module) -> torch.nn.Module:
    """The model as all processes train it."""
    return model if count() == 1 else torch.nn.parallel.DistributedDataParallel(model)


def share_buffers(model: torch.nn.Module) -> None:
    """Those of the first: running statistics of norms are each process's own, whatever the gradients do."""
    for buffer in model.buffers() if count() > 1 else ():
        distributed.broadcast(buffer, 0)


def wait() -> None:
    """For what the first has written."""
    by_first(lambda: None)
