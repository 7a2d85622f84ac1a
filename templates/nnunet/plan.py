"""nnU-Net's fingerprint, plans and preprocessing, bounded for the machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import threadpoolctl
from config import Nnunet

from shared.training.checks import DataProblems, Problem, TrainingFailed
from shared.training.machine import workers
from shared.training.progress import read_json

DATASET = "Dataset001_structures"
PLANS = "nnUNetPlans"
PROCESSES, WORKERS = "nnUNet_def_n_proc", "nnUNet_n_proc_DA"
"""Environment variables: processes that preprocess, processes that augment."""
VOXELS = 2e6
"""Of structures, for their intensities. nnU-Net's 100 million take 13 s and half a GB for the same percentiles."""


bound_threads = threadpoolctl.threadpool_limits


def bound_threads_if_seen(*words: Any, **more: Any) -> Any:
    """threadpool_limits, or nothing in a sandbox that hides from a process which libraries it has: there the bounds of
    the environment (OMP_NUM_THREADS and the like) have to be enough."""
    try:
        return bound_threads(*words, **more)
    except OSError:
        return nullcontext()


# What draws nnU-Net's batches takes it from there: this file is imported before nnU-Net.
threadpoolctl.threadpool_limits = bound_threads_if_seen


def set_environment(how: Nnunet, cache: Path) -> None:
    """nnU-Net looks these up when it is imported and while it runs; nothing outside `cache` is written."""
    for kind in ("raw", "preprocessed", "results"):
        (cache / kind).mkdir(parents=True, exist_ok=True)
        os.environ[f"nnUNet_{kind}"] = str((cache / kind).resolve())
    # A process that preprocesses holds its libraries and some ten times an image: not one for every core.
    cores = len(os.sched_getaffinity(0))
    processes = max(1, min(8, cores // 4)) if how.processes == "auto" else how.processes
    os.environ.update({PROCESSES: str(processes), WORKERS: str(workers(how))})
    os.environ.update({"nnUNet_wandb_enabled": "0", "nnUNet_compile": "f"})  # compiling takes minutes
    os.environ.setdefault("MPLCONFIGDIR", str((cache / "matplotlib").resolve()))


def plan(how: Nnunet, cache: Path, device: str) -> dict[str, Any]:
    """nnU-Net's fingerprint and plans, bounded for the machine."""
    drawing = os.environ[WORKERS]
    os.environ[WORKERS] = "1"  # the planner sets that many threads and does not bear zero
    try:
        with quietly(cache), preprocessing() as processes:
            from nnunetv2.experiment_planning.dataset_fingerprint import fingerprint_extractor
            from nnunetv2.experiment_planning.experiment_planners.default_experiment_planner import ExperimentPlanner

            extractor = fingerprint_extractor.DatasetFingerprintExtractor(DATASET, processes)
            extractor.show_progress_bar = False
            extractor.num_foreground_voxels_for_intensitystats = VOXELS
            extractor.run(overwrite_existing=True)
            planner = ExperimentPlanner(DATASET, memory_target(how, device), plans_name=PLANS)
            planner.UNet_base_num_features = how.features if how.features != "auto" else 8 if device == "cpu" else 32
            # There is no cascade here, and looking for one costs minutes where patches are small.
            planner.lowres_creation_threshold = 0
            planner.plan_experiment()
    finally:
        os.environ[WORKERS] = drawing
    return read_json(plans_file(cache))


def plans_file(cache: Path) -> Path:
    """Where nnU-Net itself reads the plan."""
    return cache / "preprocessed" / DATASET / f"{PLANS}.json"


def configuration_of(how: Nnunet, plans: dict[str, Any]) -> str:
    """Raises DataProblems where the plan has not what is asked for."""
    configuration = how.configuration
    if configuration == "auto":
        configuration = "3d_fullres" if "3d_fullres" in plans["configurations"] else "2d"
    if configuration not in plans["configurations"]:
        raise DataProblems([Problem("nnunet.configuration", f"{configuration} does not fit pictures; take 2d or auto")])
    return str(configuration)


def memory_target(how: Nnunet, device: str) -> float:
    if how.memory_gb != "auto":
        return float(how.memory_gb)
    if device == "cpu":
        return 0.15
    import torch

    return float(np.clip(torch.cuda.get_device_properties(0).total_memory / 2**30 - 2.5, 1, 8))


def preprocess(plans: dict[str, Any], configuration: str, cache: Path) -> None:
    with quietly(cache), preprocessing() as processes:
        from nnunetv2.utilities.plans_handling.plans_handler import PlansManager

        preprocessor = PlansManager(plans).get_configuration(configuration).preprocessor_class(verbose=False)
        preprocessor.show_progress_bar = False
        preprocessor.run(DATASET, configuration, PLANS, num_processes=processes)


@contextmanager
def preprocessing() -> Iterator[int]:
    """Gives the number of processes. With one, nnU-Net's pools become a thread: no six seconds of imports each, no
    /dev/shm."""
    from nnunetv2.experiment_planning.dataset_fingerprint import fingerprint_extractor
    from nnunetv2.preprocessing.preprocessors import default_preprocessor

    processes = int(os.environ[PROCESSES])
    modules = (fingerprint_extractor, default_preprocessor) if processes == 1 else ()
    known = [module.multiprocessing for module in modules]
    for module in modules:
        module.multiprocessing = SimpleNamespace(get_context=lambda method: SimpleNamespace(Pool=ThreadPool))
    try:
        yield processes
    finally:
        for module, before in zip(modules, known, strict=True):
            module.multiprocessing = before


@contextmanager
def quietly(cache: Path) -> Iterator[None]:
    """What nnU-Net prints goes to a file."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "nnunet.log").open("a", encoding="utf-8") as log, redirect_stdout(log), dead_workers():
        yield


@contextmanager
def dead_workers() -> Iterator[None]:
    """What nnU-Net says when one of its processes is gone becomes two clear lines."""
    try:
        yield
    except RuntimeError as error:
        if "background worker" not in str(error):
            raise
        raise TrainingFailed(
            "a process of nnU-Net died, most likely for lack of memory or of room in /dev/shm\n"
            "set nnunet.processes to 1 and nnunet.workers to 0, or train on a machine with more memory"
        ) from error
