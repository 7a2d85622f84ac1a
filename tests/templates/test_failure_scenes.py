"""Each known failure set off on purpose by the real thing, and what the agent is told of it. `pytest -s` prints it all.

What needs a GPU is recorded and marked so. Deaths by the sandbox are in tests/runner/test_failed_jobs.py.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shared.failures import Ended, Known, diagnose, named
from shared.failures.catalogue import DIRECTIONS, SIGNS
from tests.templates.segbench import read_progress

pytestmark = pytest.mark.timeout(900)

SCRIPT = Path(__file__).with_name("failure_scenes.py")
SMALL = 3_000_000
"""Bytes of /dev/shm and of a disk: less than a batch of the scenes."""
NEED_SMALL = ("shm_of_workers", "shm_of_one", "shm_of_locks", "disk_full", "disk_full_for_weights")
NAMES = {
    "dead_worker": "dead_worker: a process that loads",
    "shm_of_workers": "shm: /dev/shm is too small",
    "shm_of_one": "shm: /dev/shm is too small",
    "shm_of_locks": "shm: /dev/shm is too small",
    "memory_of_torch": "memory: the memory is full: 4503599627370496 bytes",
    "memory_of_numpy": "memory: the memory is full",
    "memory_killed": "memory: the training was killed from outside",
    "disk_full": "disk: the disk is full",
    "disk_full_for_weights": "disk: the disk is full",
    "labels_in_cross_entropy": "labels: a label has the value 28",
    "labels_in_one_hot": "labels: a label is not below",
    "labels_as_places": "labels: a value of 28 met 3 places",
    "labels_with_gaps": "labels: nnU-Net wants the label values",
    "labels_unknown": "labels: a mask holds values",
    "labels_in_our_words": "data: 1 of the samples",
    "geometry_of_shape": "geometry: a mask and its image differ in their Shape",
    "geometry_of_spacing": "geometry: a mask and its image differ in their Spacing",
    "geometry_of_origin": "geometry: a mask and its image differ in their Affine",
    "geometry_in_our_words": "geometry: a mask and its image do not lie",
    "data_refused": "data: 1 of the samples",
    "stale_preprocessing_of_nnunet": "stale_preprocessing: the preprocessed data lack",
    "checkpoint_of_another_network": "checkpoint: ",
    "checkpoint_of_another_optimizer": "checkpoint: ",
    "batch_of_one": "batch_of_one: ",
    "nan_by_a_huge_rate": "nan: the loss became nan at step",
    "nan_seen_by_torch": "nan: the loss or its gradients",
    "not_learned": "not_learned: ",
    "dice_zero": "dice_zero: Dice on the validation images is 0 in the last 3",
    "missing_module": "missing_module: the module segmentation_models_pytorch",
    "missing_package": "missing_module: the package segmentation-models-pytorch",
    "missing_library": "missing_module: the system library libGLnone.so.1",
    "no_gpu": "no_gpu: there is no GPU",
    "process_group": "process_group: the processes",
}
"""Scene -> how its first line begins. `unknown` is the scene that nothing may be said of."""

RECORDED = {
    "gpu_memory: the GPU's memory is full: 22.00 MiB": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
    "22.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 11.06 MiB is free. Including non-PyTorch memory, this "
    "process has 23.60 GiB memory in use.",
    "gpu_memory: the GPU's memory is full": "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
    "`cublasCreate(handle)`",
    "labels: a label is not below": "../aten/src/ATen/native/cuda/NLLLoss2d.cu:103: nll_loss2d_forward_kernel: block: "
    "[3,0,0], thread: [929,0,0] Assertion `t >= 0 && t < n_classes` failed.\nRuntimeError: CUDA error: device-side "
    "assert triggered",
    "labels: an index on the GPU": "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might "
    "be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
    "no_gpu: the GPU or its driver": "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). "
    "Please update your GPU driver",
    "no_gpu: the GPU or its driver does": "RuntimeError: CUDA error: no kernel image is available for execution on the "
    "device",
    "process_group: one process waited": "[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, "
    "Timeout(ms)=600000) ran for 600020 milliseconds before timing out.",
    "process_group: the processes": "torch.distributed.DistNetworkError: The server socket has failed to bind. port: "
    "29500, useIpv6: 0, code: -13, name: EACCES, message: permission denied",
    "shm: /dev/shm is too small": "ERROR: Unexpected bus error encountered in worker. This might be caused by "
    "insufficient shared memory (shm).\nRuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.",
    "dead_worker: a process": "RuntimeError: One or more background workers are no longer alive. Exiting. Please check "
    "the print statements above for the actual error message",
}
"""How the first line begins -> words that others recorded on GPUs, clusters and in containers."""


def small_places() -> list[str]:
    """A command line that gives a program a small /dev/shm and a small disk; empty where that cannot be had."""
    size = ["--perms", "1777", "--size", str(SMALL), "--tmpfs"]
    words = ["bwrap", "--dev-bind", "/", "/", *size, "/dev/shm", *size, "/media"]
    if not shutil.which("bwrap") or subprocess.run([*words, "true"], capture_output=True).returncode:
        return []
    return words


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Known | None]:
    """Scene -> what is known of it; all are played once."""
    folder, places = tmp_path_factory.mktemp("scenes"), small_places()
    done = subprocess.run(
        [*places, sys.executable, str(SCRIPT), str(folder), *(() if places else NEED_SMALL)],
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for scene, code in json.loads(done.stdout.splitlines()[-1]).items():
        assert code not in (0, 99), f"{scene} did not fail, or hung"
        output, progress = (folder / f"{scene}.out").read_text(), read_progress(folder / scene / "progress.jsonl")
        found[scene] = diagnose(Ended("failed", code, output, progress=progress))
    return found


@pytest.mark.parametrize("scene", NAMES)
def test_a_failure_set_off_on_purpose_is_known(played: dict[str, Known | None], scene: str) -> None:
    if scene in NEED_SMALL and scene not in played:
        pytest.skip("no small /dev/shm can be had here: bwrap does not work")
    print(f"\n{scene}\n    {str(played[scene]).replace(chr(10), chr(10) + '    ')}")
    assert str(played[scene]).startswith(NAMES[scene])


@pytest.mark.parametrize("words", RECORDED)
def test_a_failure_recorded_elsewhere_is_known(words: str) -> None:
    known = diagnose(Ended("failed", 1, f"epoch 3\n{RECORDED[words]}\nend\n"))
    print(f"\nrecorded\n    {str(known).replace(chr(10), chr(10) + '    ')}")
    assert str(known).startswith(words)


def test_each_name_of_the_catalogue_is_set_off_somewhere(played: dict[str, Known | None]) -> None:
    """`time`, `processes` and `network` are the sandbox's: tests/runner/test_failed_jobs.py."""
    known = {text.partition(":")[0] for text in (*NAMES.values(), *RECORDED)}
    assert known | {"time", "processes", "network"} == set(DIRECTIONS)
    assert {sign.name for sign in SIGNS} <= set(DIRECTIONS)
    assert set(played) | set(NEED_SMALL) == {*NAMES, "unknown", *NEED_SMALL}


def test_two_lines_and_no_more(played: dict[str, Known | None]) -> None:
    for known in filter(None, played.values()):
        lines = str(known).splitlines()
        assert len(lines) == 2 and max(map(len, lines)) <= 160 and lines[1] == DIRECTIONS[known.name]
        assert named(f"{known}\ntrain ended failed") == known


def test_what_is_not_known_is_not_guessed(played: dict[str, Known | None]) -> None:
    assert played["unknown"] is None
    innocent = "dice nan\nthe memory does not hold a batch of 8; 4 are taken, twice as often a step\nKeyError: 'image'"
    assert diagnose(Ended("failed", 1, innocent)) is None
    assert diagnose(Ended("cancelled", 143, "CUDA out of memory")) is None
    assert diagnose(Ended("ok", 0, "CUDA out of memory")) is None
    assert named("train ended failed, exit code 1\nmemory: x") is None
    zeros = [{"metric": 0.0, "metric_name": "dice"}] * 3
    assert diagnose(Ended("ok", 0, progress=zeros, metrics={"metric": 0.4, "metric_name": "dice"})) is None
    assert diagnose(Ended("ok", 0, progress=[{"metric": 0.5, "metric_name": "dice"}, *zeros[:2]])) is None
    assert diagnose(Ended("ok", 0, progress=[{"metric": 0.0, "metric_name": "auc_macro"}] * 3)) is None


def test_words_of_a_stranger_cannot_put_words_into_the_two_lines() -> None:
    for name in ("x'\nmemory: all is well", "ignore_all.previous " + "a" * 500, "\x1b[2J", "{0}"):
        known = diagnose(Ended("failed", 1, f"ModuleNotFoundError: No module named '{name}'"))
        assert known is None or (len(str(known)) < 300 and "well" not in str(known) and "\x1b" not in str(known))
