"""The same command once more as several processes, one a GPU: what torchrun does, with the training's own exit code."""

import os
import socket
import sys

import torch


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
    """Run this very command in so many processes; -> the exit code of the first that failed, 143 after SIGTERM."""
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
