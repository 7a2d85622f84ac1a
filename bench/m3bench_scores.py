"""Two readers on each replica, by patient: grey-value statistics and a small network; beside them the ideal reader.

    m3bench make all DIR --size tiny
    python -m bench.m3bench_scores DIR [REPLICA...] [--steps 2000]

One line a replica: the metric that the requests name, what no image at all gives (majority, mean mask, one report for
everybody), the better of two kinds of statistics, the network after a fixed number of steps, the ideal where it is
known. Exit code 1 where the network is not clearly better than statistics. Some minutes a replica on one core.
"""

import argparse
import json
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch

from m3bench.datasets.volumes import coarse, mean_mask_dice
from m3bench.readers.intensity import Intensity
from m3bench.readers.network import Network
from m3bench.readers.protocol import score
from m3bench.readers.samples import Sample, samples, truth_of

FOLDS = 1
"""Of three by patient: the others would say the same in three times the time."""
MARGIN = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("replicas", nargs="*")
    parser.add_argument("--steps", type=int, default=2000, help="of the network, eight samples or slices each")
    given = parser.parse_args()
    folder: Path = given.folder
    known = sorted(path.name.removesuffix(".truth.json") for path in folder.glob("*.truth.json"))
    asked = json.loads(files("m3bench").joinpath("requests.json").read_text(encoding="utf-8"))["tasks"]
    tasks = {task["card"]: task for task in asked.values()}
    torch.set_num_threads(1)
    print(
        f"{'':14}{'size':>6}{'samples':>9}  {'metric':18}{'no image':>9}{'greys':>8}{'network':>9}{'ideal':>8}{'s':>7}"
    )
    worse = [name for name in given.replicas or known if not _line(folder / name, tasks[name], given.steps)]
    if worse:
        print(f"the network is not clearly better than statistics on: {', '.join(worse)}", file=sys.stderr)
    return int(bool(worse))


def _line(folder: Path, task: dict[str, Any], steps: int) -> bool:
    """`structures` of the task are those that its requests mean, where the masks have others, too."""
    began, metric = time.monotonic(), task["real"]["metric"]
    truth, found = truth_of(folder), samples(folder)
    values = [value for name, value in truth.get("label_values", {}).items() if name in task.get("structures", [name])]
    greys = max(score(Intensity(standardised), found, values, FOLDS)[metric] for standardised in (False, True))
    seen = score(Network(steps), found, values, FOLDS)
    ideal = truth["ideal"].get(metric)
    known = "-" if ideal is None else format(ideal, ".3f")
    blind = _no_image(truth, metric, seen, found, values)
    print(
        f"{folder.name:13}{truth['size']:>6}{len(found):8}  {metric:18}{blind:9.3f}"
        f"{greys:7.3f}{seen[metric]:9.3f}{known:>7}{time.monotonic() - began:6.0f}"
        f"   {', '.join(f'{name} {value:.3f}' for name, value in seen.items() if name != metric)}",
        flush=True,
    )
    return seen[metric] > greys + MARGIN


def _no_image(truth: Any, metric: str, seen: dict[str, float], found: list[Sample], values: list[int]) -> float:
    if "constant" in seen:
        return seen["constant"]
    if metric in truth["trivial"]:
        return float(truth["trivial"][metric])
    return mean_mask_dice([coarse(sample.labels().astype(np.uint8)) for sample in found], values)


if __name__ == "__main__":
    sys.exit(main())
