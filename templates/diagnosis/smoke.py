"""The try-out of this template: its configuration and its cases (shared/training/smoke.py)."""

from typing import Any

MODES = ("3d", "2d", "3d-multi", "2d-multi")
"""Of the try-out: volumes or pictures, with one label or several."""


def settings(mode: str) -> dict[str, Any]:
    return {
        "preprocess": {"input_shape": [8, 24, 24] if mode.startswith("3d") else [32, 32]},
        "model": {"width": 8},
        "training": {"epochs": 2, "train_seconds": 60, "save_seconds": 0},
    }


def row(number: int, mode: str) -> dict[str, Any]:
    """One case in three has none of several labels."""
    label = ("plain", "block")[number % 2]
    return {"label": [label] * (number % 3 > 0) if mode.endswith("multi") else label}
