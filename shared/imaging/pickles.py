"""Arrays out of pickles and tensors, without running what the file says."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BadImage


class ArraysOnly(pickle.Unpickler):
    """Rebuilds NumPy arrays in plain containers and refuses every other global, so that a file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        # NumPy 2 renamed numpy.core to numpy._core; files of either age are read.
        if module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray") and name in ("ndarray", "dtype"):
            return getattr(np, name)
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name in ("_reconstruct", "scalar"):
            return getattr(np._core.multiarray, name)  # type: ignore[attr-defined]
        if module in ("numpy.core.numeric", "numpy._core.numeric") and name == "_frombuffer":
            return np._core.numeric._frombuffer  # type: ignore[attr-defined]
        if (module, name) == ("_codecs", "encode"):
            import _codecs

            return _codecs.encode
        raise BadImage(f"asks for {module}.{name}, which is refused: only plain arrays are read; save it as .npy")


def unpickled(path: Path) -> Any:
    """Arrays, numbers, texts, lists and dictionaries of a pickle. Raises BadImage for anything else."""
    with path.open("rb") as file:
        # Files written by Python 2 hold bytes as latin-1 text.
        return ArraysOnly(file, encoding="latin1").load()


def tensors(path: Path) -> Any:
    """What a torch file holds, its tensors as arrays. Raises BadImage, and what torch raises for all but weights."""
    try:
        import torch
    except ImportError as error:
        raise BadImage("is a PyTorch file, which takes torch to read; save it as .npy") from error
    return _numpy(torch.load(path, map_location="cpu", weights_only=True), torch)


def _numpy(value: Any, torch: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach()
        value = value.to_dense() if value.layout != torch.strided else value
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    if isinstance(value, dict):
        return {str(key): _numpy(item, torch) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_numpy(item, torch) for item in value]
    return value
