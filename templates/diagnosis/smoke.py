"""A try-out on data of its own: train, package, predict from the package. Seconds on a CPU, nothing is left behind."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from config import Config


def run_smoke() -> int:
    from train import train

    begin = time.monotonic()
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="smoke-") as made:
        folder = Path(made)
        make_data(folder / "data")
        write_index(folder)
        os.chdir(folder)
        try:
            config = Config.model_validate(
                {
                    "data_root": str(folder / "data"),
                    "preprocess": {"input_shape": [8, 24, 24]},
                    "model": {"width": 8},
                    "training": {"epochs": 2, "patience": 0, "save_seconds": 0},
                }
            )
            code = train(config)
        finally:
            os.chdir(home)
        if code:
            return code
        print(f"trained after {time.monotonic() - begin:.1f} s", flush=True)
        command = [sys.executable, "-I", str(folder / "package/predict.py"), str(folder / "data/s00"), "--output", made]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True)
        if done.returncode:
            print(done.stdout + done.stderr, file=sys.stderr)
            return 1
        case = json.loads((folder / "predictions.json").read_text())["cases"][0]
        print(f"package predicts {case['label']} for {case['input']}")
        print(f"smoke test passed after {time.monotonic() - begin:.1f} s")
    return 0


def make_data(folder: Path) -> None:
    """Twelve scans of eight PNG slices: noise, half of them with a bright block."""
    from PIL import Image

    generator = np.random.default_rng(0)
    for number in range(12):
        volume = generator.normal(90, 20, (8, 32, 32))
        if number % 2:
            volume[2:6, 8:20, 8:20] += 80
        scan = folder / f"s{number:02d}"
        scan.mkdir(parents=True)
        for slice_number, plane in enumerate(volume):
            Image.fromarray(np.clip(plane, 0, 255).astype(np.uint8)).save(scan / f"{slice_number}.png")


def write_index(folder: Path) -> None:
    rows = [
        {
            "sample_id": f"s{number:02d}",
            "patient": f"p{number:02d}",
            "label": ("plain", "block")[number % 2],
            "files": [f"s{number:02d}/{slice_number}.png" for slice_number in range(8)],
            "split": "val" if number >= 8 else "train",
        }
        for number in range(12)
    ]
    (folder / "train_index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "label_map.json").write_text(json.dumps({"names": ["plain", "block"]}))
