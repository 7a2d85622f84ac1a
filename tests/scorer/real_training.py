"""The diagnosis template as it is, trained on pictures of 32x32 for a few epochs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from real_scoring import ROOT

from shared.contracts.data import IndexRow

SMALL = {
    "input_shape": [32, 32], "flip_axes": [], "width": 8, "patience": 0, "batch_size": 16,
    "train_seconds": None, "dropout": 0.0,
}  # fmt: skip
"""Keys of its configuration, which stand in one section each."""


def train(folder: Path, data: Path, rows: Sequence[IndexRow], names: Sequence[str], epochs: int = 6) -> Path:
    """The diagnosis template on the rows, bound by its epochs; returns the package."""
    shutil.copytree(ROOT / "templates" / "diagnosis", folder, ignore=shutil.ignore_patterns("__pycache__", "cache"))
    lines = "".join(f"{row.model_dump_json()}\n" for row in rows if row.split != "test")
    (folder / "train_index.jsonl").write_text(lines)
    (folder / "label_map.json").write_text(json.dumps({"names": list(names)}))
    config = yaml.safe_load((folder / "config.yaml").read_text())
    for key, value in {**SMALL, "epochs": epochs}.items():
        (section,) = [section for section in config.values() if isinstance(section, dict) and key in section]
        section[key] = value
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/nonexistent", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT), "M3_DATA": str(data), "M3_WORKSPACE": str(folder),
    }  # fmt: skip
    command = [sys.executable, "train.py", "--config", "config.yaml"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "package"
