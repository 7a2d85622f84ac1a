"""Steps beside the loop of a training: what its tiers try a model with, and its last fit."""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from shared.training.machine import mixed_precision

Batch = Mapping[str, torch.Tensor]
Prepare = Callable[[Batch], Batch]
WARM_UP = 10


@contextmanager
def same_draws(device: torch.device) -> Iterator[None]:
    """Leaves all generators of random numbers as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


class Steps:
    """Steps as the training makes them: AdamW, a short warm-up, clipped gradients, mixed precision on a GPU."""

    def __init__(
        self, model: torch.nn.Module, wanted: Any, device: torch.device, rate: float, prepare: Prepare
    ) -> None:
        self.prepare = prepare
        self.model, self.device, self.rate = model, device, rate
        self.mixed = mixed_precision(wanted, device)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.mixed == torch.float16)
        self.losses: list[float] = []
        model.train()

    def loss(self, batch: Batch) -> torch.Tensor:
        inputs = self.prepare({key: value.to(self.device) for key, value in batch.items()})
        with torch.autocast(self.device.type, self.mixed, enabled=self.mixed is not None):
            found: torch.Tensor = self.model(**inputs)["loss"].mean()
        return found

    def step(self, batch: Batch) -> float:
        """The loss before the step."""
        return self.learn(self.loss(batch))

    def learn(self, loss: torch.Tensor) -> float:
        """A step by this loss of a batch, where it is finite."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min(1.0, (len(self.losses) + 1) / WARM_UP)
        self.losses.append(float(loss.detach()))
        if math.isfinite(self.losses[-1]):
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return self.losses[-1]


def spread(data: Any, wanted: int) -> torch.utils.data.Subset[Batch]:
    """So many samples, evenly drawn: an index often has its classes one after the other."""
    return torch.utils.data.Subset(data, [place * len(data) // wanted for place in range(wanted)])


def batch_of(data: Any, size: int) -> Batch:
    samples = spread(data, size)
    found: Batch = torch.utils.data.default_collate([samples[number] for number in range(size)])
    return found
