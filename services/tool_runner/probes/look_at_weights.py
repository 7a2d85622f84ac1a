"""Trusted program: what a file of weights holds, as one JSON line, a `Looked`, or {"refused"} with the reason.

look_at_weights.py FILE                  (templates below $M3_TEMPLATES)

Nothing in the file is executed: it is read as a training would read it (templates/diagnosis/pretrained.py). Networks
are built without memory for their weights, so that names and shapes are all that is compared.
"""

import json
import math
import os
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import torch

sys.path.insert(0, os.environ["M3_TEMPLATES"] + "/diagnosis")
config, networks, pretrained = (import_module(name) for name in ("config", "networks", "pretrained"))

LISTED, LETTERS = 1000, 200
WIDTHS = (16, 32, 64)
SHARE = 0.9
"""Of a backbone's tensors that a file must have for the two to fit."""
TOLD = 5


def look(path: Path) -> dict[str, Any]:
    found = pretrained.tensors_of(path)
    if not found:
        raise ValueError("it holds no tensors under names, as a state dict does")
    shapes = {name: torch.empty(tensor.shape, dtype=tensor.dtype, device="meta") for name, tensor in found.items()}
    return {
        "tensors": len(found),
        "parameters": sum(tensor.numel() for tensor in found.values()),
        "layers": {name[:LETTERS]: list(tensor.shape) for name, tensor in list(found.items())[:LISTED]},
        "fits": fits(shapes),
    }


def fits(found: dict[str, torch.Tensor]) -> list[dict[str, Any]]:
    """Backbones in the usual widths, those first that take most of the file."""
    dimensions = max(tensor.ndim for tensor in found.values()) - 2
    fitting = []
    for backbone in get_args(config.Model.model_fields["backbone"].annotation) if dimensions in (2, 3) else ():
        for width in WIDTHS:
            wanted = SimpleNamespace(backbone=backbone, width=width, norm="batch", patch="auto")
            # A swinunetr computes with numbers while it is made, which takes a device that has some.
            with torch.device("cpu" if backbone == "swinunetr" else "meta"):
                encoder = networks.make_encoder(wanted, (64,) * dimensions)
            taken, counted = pretrained.fitting(found, encoder)
            if len(taken) >= SHARE * counted:
                used = sum(math.prod(tensor.shape) for tensor in taken.values())
                share = round(len(taken) / counted, 3)
                told = {"backbone": backbone, "width": width, "dimensions": dimensions, "share": share}
                fitting.append((used, told))
            if backbone.startswith("efficientnet"):
                break  # it has no width
    return [told for _, told in sorted(fitting, key=lambda one: -one[0])[:TOLD]]


if __name__ == "__main__":
    try:
        print(json.dumps(look(Path(sys.argv[1])), ensure_ascii=True))
    except ValueError as error:
        print(json.dumps({"refused": str(error).removeprefix("model.weights: ").partition("\n")[0][:300]}))
