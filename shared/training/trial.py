"""Steps of a training that are taken back: what the tiers of a training try a model with."""

import math
import random
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from shared.training.machine import mixed_precision

Batch = Mapping[str, torch.Tensor]
Item = Callable[[int], Batch]
Prepare = Callable[[Batch], Batch]
WARM_UP = 10


def as_it_is(batch: Batch) -> Batch:
    return batch


class Kept:
    """Weights, buffers, modes and random states as they were."""

    def __init__(self, model: torch.nn.Module, device: torch.device) -> None:
        self.model, self.device = model, device
        self.modes = {module: module.training for module in model.modules()}
        # Not on a GPU, whose memory is being tried.
        self.tensors = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors(model)}
        self.torch_state, self.python_state = torch.get_rng_state(), random.getstate()
        self.numpy_state = np.random.get_state()
        self.cuda_state = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore(self) -> None:
        self.model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, tensor in tensors(self.model):
                tensor.copy_(self.tensors[name])
        for module, training in self.modes.items():
            module.training = training
        torch.set_rng_state(self.torch_state)
        random.setstate(self.python_state)
        np.random.set_state(self.numpy_state)
        if self.cuda_state is not None:
            torch.cuda.set_rng_state(self.cuda_state, self.device)
            torch.cuda.empty_cache()


def tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


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
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min(1.0, (len(self.losses) + 1) / WARM_UP)
        loss = self.loss(batch)
        self.losses.append(float(loss.detach()))
        if math.isfinite(self.losses[-1]):
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return self.losses[-1]


@dataclass(frozen=True)
class Chosen:
    """Samples of these numbers, as a DataLoader takes them."""

    item: Item
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: int) -> Batch:
        return self.item(self.numbers[place])


def stacked(samples: Sequence[Batch]) -> dict[str, torch.Tensor]:
    return {key: torch.stack([sample[key] for sample in samples]) for key in samples[0]}


def spread(count: int, wanted: int) -> list[int]:
    """Numbers below `count`, evenly drawn: an index often has its classes one after the other."""
    return [place * count // wanted for place in range(wanted)]


def peak_memory() -> int:
    """Bytes of this process."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
