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

TEXTS = (
    "Findings: a bright disc on the left side. Impression: disc.",
    "Findings: no disc is seen. Impression: normal.",
)


def run_smoke() -> int:
    from train import train

    begin = time.monotonic()
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="smoke-") as made:
        folder = Path(made)
        make_data(folder)
        os.chdir(folder)
        try:
            config = Config.model_validate(
                {
                    "data_root": str(folder / "data"),
                    "preprocess": {"input_shape": [32, 32]},
                    "model": {"width": 8, "hidden": 32},
                    "generation": {"beams": 2},
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
        print(f"package writes {case['report']!r} for {case['input']}")
        print(f"smoke test passed after {time.monotonic() - begin:.1f} s")
    return 0


def make_data(folder: Path) -> None:
    """Twelve cases of two PNG views: noise, half of them with a bright disc. And their index."""
    from PIL import Image

    generator = np.random.default_rng(0)
    down, across = np.mgrid[:40, :40]
    rows = []
    for number in range(12):
        name = f"s{number:02d}"
        (folder / "data" / name).mkdir(parents=True)
        for view in range(2):
            picture = generator.normal(90, 20, (40, 40))
            if number % 2 == 0:
                picture[(down - 20) ** 2 + (across - 10) ** 2 < 40] += 100
            Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).save(folder / "data" / name / f"{view}.png")
        rows.append(
            {
                "sample_id": name,
                "patient": f"p{number:02d}",
                "target": TEXTS[number % 2],
                "files": [f"{name}/{view}.png" for view in range(2)],
                "split": "val" if number >= 8 else "train",
            }
        )
    (folder / "train_index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
