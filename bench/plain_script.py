"""The template diagnosis beside the script that an engineer would write in an hour, on the classification replicas.

    python -m bench.plain_script [REPLICA ...] [--seconds 300] [--size tiny] [--seeds 1] [--set training.patience=0 ...]

Both get the same cases as NIfTI or PNG, the same split by patient (3 train, 1 val, 2 test of six) and the same seconds,
one after the other. The plain script is a residual network from scratch in one file (`bench/rig/plain_classifier.py`):
crop or pad to one shape, flips, shifts and brightness in the batch, AdamW under a one-cycle rate, early stopping on the
validation part. A line a replica and seed: macro AUC on the test part of both, and epochs. Exit code 1 where the mean
of a replica is more than 0.02 below the plain script's.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from PIL import Image
from sklearn.metrics import roc_auc_score

from bench.rig.workspace import Workspace
from m3bench import replicas
from m3bench.readers.samples import samples

REPLICAS = ("adni", "kneemri", "cc-ccii", "ct-kidney")
MARGIN = 0.02
PLAIN = Path(__file__).parent / "rig" / "plain_classifier.py"

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("replicas", nargs="*", default=REPLICAS)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--seconds", type=float, default=300, help="of each training")
    parser.add_argument("--seeds", type=int, default=1, help="splits of each replica")
    parser.add_argument("--set", nargs="*", default=[], help="SECTION.KEY=VALUE of the template's configuration")
    given = parser.parse_args()
    more: dict[str, Any] = {}
    for one in given.set:
        key, _, value = one.partition("=")
        section, _, name = key.partition(".")
        more.setdefault(section, {})[name] = json.loads(value)
    print(f"{given.seconds:g} s each, load {os.getloadavg()[0]:.1f}")
    print(f"{'replica':12}{'seed':>5}{'train':>7}{'test':>6}{'template':>10}{'epochs':>8}{'plain':>8}{'epochs':>8}")
    worse = []
    for name in given.replicas:
        with tempfile.TemporaryDirectory(prefix="bench-plain-") as scratch:
            rows = cases(Path(scratch), name, given.size)
            gaps = [compared(Path(scratch), name, rows, seed, given.seconds, more) for seed in range(given.seeds)]
        if np.mean(gaps) < -MARGIN:
            worse.append(name)
    if worse:
        print(f"worse than the plain script on: {', '.join(worse)}", file=sys.stderr)
    return int(bool(worse))


def cases(folder: Path, name: str, size: str) -> list[Row]:
    """Every sample of a replica as one file below `folder`/data: id, patient, label, file."""
    replicas.make(name, folder / name, size=size)
    (folder / "data").mkdir()
    rows = []
    for number, sample in enumerate(samples(folder / name)):
        array = sample.image()
        case = f"s{number:04d}"
        if array.ndim == 2:
            file = f"{case}.png"
            Image.fromarray(array.astype(np.uint8)).save(folder / "data" / file)
        else:
            file = f"{case}.nii.gz"
            kept = array if array.dtype == np.float32 else array.astype(np.int16)
            nibabel.save(nibabel.Nifti1Image(kept.transpose(2, 1, 0), np.eye(4)), folder / "data" / file)
        rows.append({"sample_id": case, "patient": sample.group, "label": sample.label, "files": [file]})
    return rows


def compared(folder: Path, name: str, rows: list[Row], seed: int, seconds: float, more: dict[str, Any]) -> float:
    """Train both, print the line. -> AUC of the template less that of the plain script."""
    people = sorted({str(row["patient"]) for row in rows})
    place = dict(zip(np.random.default_rng(seed).permutation(people), np.arange(len(people)) % 6, strict=True))
    sides = {0: "train", 1: "train", 2: "train", 3: "val"}
    parts: dict[str, list[Row]] = {"train": [], "val": [], "test": []}
    for row in rows:
        part = sides.get(int(place[str(row["patient"])]), "test")
        parts[part].append({**row, "split": part})
    names = sorted({str(row["label"]) for row in rows})
    config = {**more, "training": {"train_seconds": seconds, "seed": seed} | more.get("training", {})}
    threads = len(os.sched_getaffinity(0))
    space = Workspace(folder / f"template{seed}", "diagnosis", config, threads, folder / "data")
    lines = "".join(json.dumps(row) + "\n" for row in parts["train"] + parts["val"])
    (space.folder / "train_index.jsonl").write_text(lines, encoding="utf-8")
    (space.folder / "label_map.json").write_text(json.dumps({"names": names}), encoding="utf-8")
    if code := space.train(2 * seconds + 120):
        raise SystemExit(f"{name}: train.py ended with {code}: {space.said()}")
    ours = answers(space, parts["test"], names)
    tests = [str(folder / "data" / row["files"][0]) for row in parts["test"]]
    order = folder / f"plain{seed}.json"
    known = [{**row, "files": [str(folder / "data" / row["files"][0])]} for row in parts["train"] + parts["val"]]
    order.write_text(json.dumps({"rows": known, "tests": tests, "names": names, "seconds": seconds, "seed": seed}))
    done = folder / f"plain{seed}.answers.json"
    process = space.start((sys.executable, str(PLAIN), str(order), str(done)))
    if process.wait(2 * seconds + 120):
        raise SystemExit(f"{name}: the plain script failed: {space.said()}")
    plain = json.loads(done.read_text())
    truth = [names.index(str(row["label"])) for row in parts["test"]]
    scores = [auc(np.array(found), truth) for found in (ours, plain["chances"])]
    print(
        f"{name:12}{seed:5}{len(parts['train']):7}{len(truth):6}{scores[0]:10.3f}{space.metrics()['epochs']:8.0f}"
        f"{scores[1]:8.3f}{plain['epochs']:8}",
        flush=True,
    )
    return scores[0] - scores[1]


def answers(space: Workspace, tests: list[Row], names: list[str]) -> list[list[float]]:
    """Probabilities of the package, a row a test case."""
    inputs = [str(space.data / row["files"][0]) for row in tests]
    process = space.start((sys.executable, "package/predict.py", *inputs, "--output", str(space.folder / "out")))
    if process.wait():
        raise SystemExit(f"predict.py failed: {space.said()}")
    found = json.loads((space.folder / "out" / "predictions.json").read_text())["cases"]
    return [[case["probabilities"][name] for name in names] for case in found]


def auc(chances: np.ndarray, truth: list[int]) -> float:
    """Mean one-against-rest AUC of the classes that occur."""
    held = np.eye(chances.shape[1])[truth]
    return float(np.mean([roc_auc_score(held[:, n], chances[:, n]) for n in set(truth)]))


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    print(f"{time.monotonic() - began:.0f} s in all")
    sys.exit(code)
