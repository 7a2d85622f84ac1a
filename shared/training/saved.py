"""The best weights of a training, and checkpoints of a visible loop: a folder `checkpoint-<step>` with one file.

Both are written whole or not at all. Checkpoints hold tensors and plain values, nothing else: what is read back is
never executed. Which of them to go on from, `checkpoints.resume` says.
"""

import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch.optim.swa_utils import AveragedModel

from shared.training import ranks
from shared.training.checkpoints import STATE
from shared.training.progress import read_json, write_json

KEPT = 2
AVERAGED_EVERY = 4
"""Steps: an update of each costs a small network several per cent of its time."""


def save(folder: Path, step: int, state: Mapping[str, Any]) -> None:
    """Write below `folder`, force it to disk, then give it its name; the newest KEPT stay. A step is saved once."""
    target = folder / f"checkpoint-{step}"
    if not target.exists():
        draft = folder / f".part-{step}"
        shutil.rmtree(draft, ignore_errors=True)  # of an attempt that was killed
        draft.mkdir(parents=True)
        with (draft / STATE).open("wb") as file:
            torch.save({**state, "step": step}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    made = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    for old in [*made[:-KEPT], *folder.glob(".part-*")]:
        shutil.rmtree(old)


def load(path: Path) -> dict[str, Any]:
    """The state of a checkpoint, on the CPU."""
    found: dict[str, Any] = torch.load(path / STATE, map_location="cpu", weights_only=True)
    return found


def save_weights(model: torch.nn.Module, path: Path) -> None:
    save_state(model.state_dict(), path)


def save_state(state: Mapping[str, torch.Tensor], path: Path) -> None:
    """On the CPU, contiguous, as safetensors."""
    safetensors.torch.save_file({k: v.detach().cpu().contiguous() for k, v in state.items()}, path)


def averaged(model: torch.nn.Module) -> AveragedModel:
    """A running average of weights and buffers over about the last tenth of the steps, at most a thousand of them:
    `.update_parameters(model)` after every AVERAGED_EVERY steps, `.module` has the average."""

    def mixed(old: list[torch.Tensor], new: list[torch.Tensor], steps: torch.Tensor) -> None:
        """Of tensors of one type."""
        if old[0].is_floating_point():
            torch._foreach_lerp_(old, new, max(9 / (9 + int(steps)), AVERAGED_EVERY / 1000))
        else:
            torch._foreach_copy_(old, new)

    return AveragedModel(model, multi_avg_fn=mixed, use_buffers=True)


class Best:
    """The best weights in `folder`, of earlier attempts, too, and what is said of them, each replaced whole."""

    def __init__(self, folder: Path) -> None:
        self.note, self.weights = folder / "best.json", folder / "model.safetensors"
        self.said: dict[str, Any] = read_json(self.note)
        self.waited = 0
        """Evaluations since then."""

    def consider(self, model: torch.nn.Module, metric: float | None, loss: float, lead: float = 0, **more: Any) -> None:
        """Keep the weights where they are better than all before, which have to be ahead by `lead` to stay; of equal
        metrics the lower loss. What is not finite was no evaluation."""
        if metric is None or not math.isfinite(metric) or not math.isfinite(loss):
            return
        self.waited += 1
        if not self.said or (metric + lead, -loss) > (self.said["metric"], -self.said["loss"]):
            self.waited, self.said = 0, {"metric": metric, "loss": loss, **more}
            if ranks.first():
                self.note.parent.mkdir(parents=True, exist_ok=True)
                draft = self.weights.with_suffix(".part")
                save_weights(model, draft)
                draft.replace(self.weights)
                write_json(self.note, self.said)
