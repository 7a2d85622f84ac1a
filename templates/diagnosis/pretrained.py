"""Weights of a local file to begin with: what fits by name and shape. Nothing in the file is executed."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

Tensors = Mapping[str, torch.Tensor]
LEAST = 0.5
"""Of the network's tensors that must fit; fewer are of another network."""


def file_of(wanted: str) -> Path:
    """Where `model.weights` lies: below /weights is the shelf, which sandboxes without mounts have elsewhere."""
    shelf = Path("/weights")
    path = Path(wanted)
    return Path(os.environ.get("M3_WEIGHTS", shelf), path.relative_to(shelf)) if shelf in path.parents else path


def load_into(encoder: torch.nn.Module, path: Path) -> str:
    """A sentence that says how many were taken. Raises ValueError, in two lines: cause and direction."""
    taken, counted = fitting(tensors_of(path), encoder)
    if len(taken) < LEAST * counted:
        raise ValueError(
            f"model.weights: {len(taken)} of the backbone's {counted} tensors stand in {path.name} with their name and "
            "shape; these are another network's\n"
            "set backbone, width, norm, patch and dimensions to those of the weights, or model.weights to null"
        )
    getattr(encoder, "network", encoder).load_state_dict(taken, strict=False)
    return f"{len(taken)} of the backbone's {counted} tensors are taken from {path.name}"


def told(path: Path) -> str:
    """What the card of a package says of weights: the entry beside those of the shelf, else the file itself."""
    entry = path.with_suffix(".json")
    if not entry.is_file():
        return f"{path.name}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
    said = json.loads(entry.read_text(encoding="utf-8"))
    return f"{said['name']}, licence: {said['licence']}, source: {said['source']}, SHA-256 {said['file']['sha256']}"


def fitting(found: Tensors, encoder: torch.nn.Module) -> tuple[dict[str, torch.Tensor], int]:
    """Tensors of numbers that the encoder takes, and how many it has."""
    # Names as the network's makers give them, without those of what is around it here.
    wanted = {
        name: tensor
        for name, tensor in getattr(encoder, "network", encoder).state_dict().items()
        if tensor.is_floating_point()
    }
    return matched(with_channels(found, wanted), wanted), len(wanted)


def with_channels(found: Tensors, wanted: Tensors) -> Tensors:
    """`found`, its first layer summed and shared out where the network's takes another number of channels: an image
    whose channels are all the same is answered as before."""
    fitted = dict(found)
    name, first = next((item for item in wanted.items() if item[1].ndim >= 4), ("", torch.empty(0)))
    for key, tensor in found.items():
        other = f".{key}".endswith(f".{name}") and tensor.ndim == first.ndim and tensor.shape != first.shape
        if other and (summed := tensor.sum(1, keepdim=True)).shape == first[:, :1].shape:
            fitted[key] = summed.expand(first.shape) / first.shape[1]
    return fitted


def matched(found: Tensors, wanted: Tensors) -> dict[str, torch.Tensor]:
    """Tensors of `found` by their names in `wanted`: all behind one prefix (`module.`, `encoder.`), the best."""
    names = [(key, ".".join(key.split(".")[start:])) for key in found for start in range(key.count(".") + 1)]
    fits = [(key, name) for key, name in names if name in wanted and wanted[name].shape == found[key].shape]
    prefixes = Counter(key.removesuffix(name) for key, name in fits)
    prefix = max(prefixes, key=lambda one: prefixes[one], default="")
    return {name: found[key] for key, name in fits if key == prefix + name}


def tensors_of(path: Path) -> Tensors:
    if not path.is_file():
        raise ValueError(f"model.weights: {path} does not exist\ngive a file, absolute or relative to the workspace")
    try:
        if path.suffix == ".safetensors":
            found: Any = safetensors.torch.load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a file that is something else raises
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            f"model.weights: {path.name} cannot be read ({reason})\n"
            "give a state dict as .safetensors, or as .pt that torch.load(weights_only=True) reads"
        ) from None
    return largest(found)


def largest(found: Any) -> Tensors:
    """The state dict in what was saved: itself, or what stands in it under `state_dict`, `model` and the like."""
    if not isinstance(found, Mapping):
        return {}
    own = {str(key): value for key, value in found.items() if isinstance(value, torch.Tensor)}
    return max([own, *(largest(value) for value in found.values() if isinstance(value, Mapping))], key=len)
