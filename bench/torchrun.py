"""The diagnosis template as one process beside two under torchrun, on the CPU: the same quality, and how much sooner.

    python -m bench.torchrun [--seeds 3] [--epochs 12] [--images 180] [--folder DIR]

The two have half the cores and half the batch each, so that a step sees as many images on as many cores. `epoch s` is
the time from the first validation record to the last, an epoch; `whole s` the command with its start. Exit code 1 if a
training fails. Without GPUs this shows that nothing is lost, not what is won.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.rig.kinds import Kind

KIND = Kind("diagnosis", 2)
BATCH = 8
METRICS = ("auc_macro", "balanced_accuracy")


class Seen(NamedTuple):
    metrics: dict[str, float]
    epoch: float
    whole: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--images", type=int, default=180, help="a third of them for validation")
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder)")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{given.images} images of 64 x 64, {given.epochs} epochs, {cores} cores, load {os.getloadavg()[0]:.1f}")
    heads = (*METRICS, "epoch s", "whole s")
    print(f"{'':8}{'processes':>10}" + "".join(f"{head:>19}" for head in heads), flush=True)
    found: dict[int, list[Seen]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="bench-torchrun-", dir=given.folder) as scratch:
        made = Path(scratch) / "made"
        # Faint, so that there is something to lose.
        KIND.data(made, (64, 64), given.images, contrast=14)
        for seed in range(given.seeds):
            for processes in found:
                folder = Path(scratch) / f"seed{seed}-{processes}"
                seen = train(made, folder, seed, given.epochs, processes, max(1, cores // processes))
                found[processes].append(seen)
                show(f"seed {seed}", processes, seen)
    for processes, seen_all in found.items():
        show("mean", processes, mean(seen_all))
    one, two = mean(found[1]), mean(found[2])
    print(f"ratio of two to one: {two.epoch / one.epoch:.2f} an epoch, {two.whole / one.whole:.2f} the command")
    return 0


def train(made: Path, folder: Path, seed: int, epochs: int, processes: int, threads: int) -> Seen:
    training = {"epochs": epochs, "train_seconds": None, "patience": 0, "seed": seed}
    config = {"preprocess": {"input_shape": [64, 64]}, "training": {**training, "batch_size": BATCH // processes}}
    space = KIND.workspace(folder, made, config, threads)
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    command = [sys.executable, *(launcher if processes > 1 else []), "train.py", "--config", "config.yaml"]
    began = time.monotonic()
    process = space.start(command)
    lines = space.watch(process, 900)
    whole = time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"seed {seed}, {processes} processes: ended with {process.returncode}\n{space.said(10)}")
    records = [seconds for seconds, line in lines if "metric" in line and line.get("text") != "done"]
    metrics = space.metrics()["metrics"]
    return Seen(
        {name: float(metrics[name]) for name in METRICS}, (records[-1] - records[0]) / max(1, epochs - 1), whole
    )


def mean(seen: list[Seen]) -> Seen:
    metrics = {name: statistics.mean(one.metrics[name] for one in seen) for name in METRICS}
    return Seen(metrics, statistics.mean(one.epoch for one in seen), statistics.mean(one.whole for one in seen))


def show(name: str, processes: int, seen: Seen) -> None:
    cells = [*(f"{seen.metrics[metric]:19.3f}" for metric in METRICS), f"{seen.epoch:19.2f}", f"{seen.whole:19.1f}"]
    print(f"{name:8}{processes:10}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
