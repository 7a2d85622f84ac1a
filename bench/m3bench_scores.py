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

import torch

from m3bench.readers.intensity import Intensity
from m3bench.readers.network import Network
from m3bench.readers.protocol import score
from m3bench.readers.samples import samples, truth_of

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
    metrics = {task["card"]: task["real"]["metric"] for task in asked.values()}
    torch.set_num_threads(1)
    print(
        f"{'':14}{'size':>6}{'samples':>9}  {'metric':18}{'no image':>9}{'greys':>8}{'network':>9}{'ideal':>8}{'s':>7}"
    )
    worse = [name for name in given.replicas or known if not _line(folder / name, metrics[name], given.steps)]
    if worse:
        print(f"the network is not clearly better than statistics on: {', '.join(worse)}", file=sys.stderr)
    return int(bool(worse))


def _line(folder: Path, metric: str, steps: int) -> bool:
    began = time.monotonic()
    truth, found = truth_of(folder), samples(folder)
    values = list(truth.get("label_values", {}).values())
    greys = max(score(Intensity(standardised), found, values, FOLDS)[metric] for standardised in (False, True))
    seen = score(Network(steps), found, values, FOLDS)
    ideal = truth["ideal"].get(metric)
    known = "-" if ideal is None else format(ideal, ".3f")
    print(
        f"{folder.name:13}{truth['size']:>6}{len(found):8}  {metric:18}{_no_image(truth, metric, seen):9.3f}"
        f"{greys:7.3f}{seen[metric]:9.3f}{known:>7}{time.monotonic() - began:6.0f}"
        f"   {', '.join(f'{name} {value:.3f}' for name, value in seen.items() if name != metric)}",
        flush=True,
    )
    return seen[metric] > greys + MARGIN


def _no_image(truth: Any, metric: str, seen: dict[str, float]) -> float:
    if "constant" in seen:
        return seen["constant"]
    trivial = truth["trivial"]
    return float(trivial[metric] if metric in trivial else trivial["mean_mask_dice"])


if __name__ == "__main__":
    sys.exit(main())
