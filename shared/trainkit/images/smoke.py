"""A try-out on data of its own: train, package, predict from the package. Seconds on a CPU, nothing is left behind."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

MODES = {"diagnosis": ("3d", "2d", "3d-multi", "2d-multi"), "report_generation": ("2d", "3d")}
"""The first is what --smoke alone does."""
TEXTS = (
    "Findings: no block is seen. Impression: normal.",
    "Findings: a bright block on the left side. Impression: block.",
)
SHAPES = {"2d": [32, 32], "3d": [8, 24, 24]}


def run(task: Any, modes: Sequence[str]) -> int:
    for mode in modes:
        begin = time.monotonic()
        if code := once(task, mode):
            return code
        print(f"smoke test passed ({mode}) after {time.monotonic() - begin:.1f} s", flush=True)
    return 0


def once(task: Any, mode: str) -> int:
    from shared.trainkit.images.run import train

    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="smoke-") as made:
        folder = Path(made)
        make_data(folder, mode)
        text = task.name == "report_generation"
        own: dict[str, Any] = {"generation": {"beams": 2}} if text else {}
        wanted = {
            "data_root": str(folder / "data"),
            "preprocess": {"input_shape": SHAPES[mode[:2]]},
            "model": {"width": 8, **({"hidden": 32} if text else {})},
            "training": {"epochs": 2, "patience": 0, "save_seconds": 0},
            **own,
        }
        (folder / "config.yaml").write_text(json.dumps(wanted))
        os.chdir(folder)
        try:
            code = train(task, task.load("config.yaml"))
        finally:
            os.chdir(home)
        return code or try_package(folder)


def try_package(folder: Path) -> int:
    command = [
        sys.executable,
        "-I",
        str(folder / "package/predict.py"),
        str(folder / "data/s01"),
        "--output",
        str(folder),
    ]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    case = json.loads((folder / "predictions.json").read_text())["cases"][0]
    print(f"package says {case.get('label', case.get('report'))!r} of {case['input']}", flush=True)
    return 0


def make_data(folder: Path, mode: str) -> None:
    """Twelve samples of noise, half of them with a bright block, as PNG: eight slices, or a single picture."""
    from PIL import Image

    generator = np.random.default_rng(0)
    rows = []
    for number in range(12):
        volume = generator.normal(90, 20, (8 if mode.startswith("3d") else 1, 32, 32))
        if number % 2:
            volume[volume.shape[0] // 4 : 6, 8:20, 8:20] += 80
        name = f"s{number:02d}"
        (folder / "data" / name).mkdir(parents=True)
        files = [f"{name}/{place}.png" for place in range(len(volume))]
        for file, plane in zip(files, volume, strict=True):
            Image.fromarray(np.clip(plane, 0, 255).astype(np.uint8)).save(folder / "data" / file)
        rows.append(row(number, files, "val" if number >= 8 else "train", mode.endswith("multi")))
    (folder / "train_index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "label_map.json").write_text(json.dumps({"names": ["plain", "block"]}))


def row(number: int, files: list[str], split: str, several: bool) -> Mapping[str, Any]:
    """With label and report: each template takes its own. One in three has none of several labels."""
    label, name = ("plain", "block")[number % 2], f"s{number:02d}"
    return {
        "sample_id": name,
        "patient": f"patient-{name}",
        "label": [label] * (number % 3 > 0) if several else label,
        "target": TEXTS[number % 2],
        "files": files,
        "split": split,
    }
