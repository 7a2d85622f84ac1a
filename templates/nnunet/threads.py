"""nnU-Net bounds the threads of its workers by looking up which libraries a process has. A sandbox may hide that of all
processes but the first; then the environment's bounds (OMP_NUM_THREADS and the like) have to be enough."""

from contextlib import nullcontext
from importlib import import_module
from typing import Any

DRAWING = (
    "nnunetv2.training.dataloading.data_loader",
    "batchgenerators.dataloading.multi_threaded_augmenter",
    "batchgenerators.dataloading.nondet_multi_threaded_augmenter",
)


def limits(*words: Any, **more: Any) -> Any:
    """threadpool_limits, or nothing where /proc/self/maps cannot be read."""
    try:
        return import_module("threadpoolctl").threadpool_limits(*words, **more)
    except OSError:
        return nullcontext()


def bear_hidden_libraries() -> None:
    """In the modules that draw batches; processes forked later have it, too."""
    for name in DRAWING:
        module: Any = import_module(name)
        module.threadpool_limits = limits
