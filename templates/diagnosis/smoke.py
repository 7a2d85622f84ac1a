"""A try-out on data of its own: train, package, predict from the package. Seconds on a CPU, nothing is left behind."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from shared.imaging.write import write_nifti, write_png

MODES = ("3d", "2d", "3d-multi", "2d-multi")
"""Volumes or pictures, with one label or several."""


def run(mode: str, train: Callable[[], int]) -> int:
    """`train()` trains in the working directory, by its config.yaml. -> exit code"""
    home = Path.cwd()
    for one in MODES if mode == "all" else (mode,):
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="smoke-") as made:
            write_workspace(Path(made), one)
            os.chdir(made)
            try:
                code = train() or predict(Path(made))
            finally:
                os.chdir(home)
        if code:
            return code
        print(f"smoke test passed ({one}) after {time.monotonic() - begin:.1f} s", flush=True)
    return 0


def write_workspace(folder: Path, mode: str) -> None:
    """Twelve cases of noise, half of them with a bright block: a NIfTI of eight slices, or a PNG."""
    generator, deep, rows = np.random.default_rng(0), mode.startswith("3d"), []
    for number in range(12):
        volume = generator.normal(90, 20, (8 if deep else 1, 32, 32))
        if number % 2:
            volume[volume.shape[0] // 4 : 6, 8:20, 8:20] += 80
        values, path = np.clip(volume, 0, 255).astype(np.uint8), folder / f"data/s{number:02d}/image"
        path.parent.mkdir(parents=True)
        file = write_nifti(values.transpose(2, 1, 0), np.eye(4), path) if deep else write_png(values[0], path)
        label, name = ("plain", "block")[number % 2], path.parent.name
        row = {"sample_id": name, "patient": f"patient-{name}", "files": [f"{name}/{file.name}"]}
        # One in three has none of several labels.
        row |= {"label": [label] * (number % 3 > 0) if mode.endswith("multi") else label}
        rows.append(row | {"split": "val" if number >= 8 else "train"})
    (folder / "train_index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "label_map.json").write_text(json.dumps({"names": ["plain", "block"]}))
    config = {
        "data_root": str(folder / "data"),
        "preprocess": {"input_shape": [8, 24, 24] if deep else [32, 32]},
        "model": {"width": 8},
        "training": {"epochs": 2, "patience": 0, "save_seconds": 0},
    }
    (folder / "config.yaml").write_text(json.dumps(config))


def predict(folder: Path) -> int:
    """The package, as a stranger runs it. -> exit code"""
    script, case = folder / "package/predict.py", folder / "data/s01"
    command = [sys.executable, "-I", str(script), str(case), "--output", str(folder)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    case = json.loads((folder / "predictions.json").read_text())["cases"][0]
    print(f"package says {case['label']!r} of {case['input']}", flush=True)
    return 0
