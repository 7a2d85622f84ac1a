"""What stands in a checkpoint of the nnU-Net engine: tensors and plain values, nothing else."""

import math
from pathlib import Path
from typing import Any

import torch


def clone(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def nan(value: Any) -> Any:
    """JSON has none; in the logs null stands for it."""
    return math.nan if value is None else [nan(item) for item in value] if isinstance(value, list) else value


def state_fault(path: Path) -> str | None:
    """Why a checkpoint cannot be gone on from, or None. Only tensors and plain values are ever unpickled."""
    try:
        state = torch.load(path / "state.pt", map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a torn file raises
        return f"it does not load ({type(error).__name__})"
    return None if isinstance(state, dict) and "iteration" in state else "it names no iteration"
