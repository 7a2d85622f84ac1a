"""The try-out of this template: its configuration and its cases (shared/training/smoke.py)."""

from typing import Any

MODES = ("2d", "3d")


def settings(mode: str) -> dict[str, Any]:
    return {
        "preprocess": {"input_shape": [8, 24, 24] if mode == "3d" else [32, 32]},
        "model": {"width": 8, "hidden": 32},
        "training": {"epochs": 2, "train_seconds": 60, "save_seconds": 0},
    }


def row(number: int, mode: str) -> dict[str, Any]:
    seen = ("no block is seen", "a bright block on the left side")[number % 2]
    return {"target": f"Findings: {seen}. Impression: {('normal', 'block')[number % 2]}."}
