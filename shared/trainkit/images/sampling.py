"""Which training samples an epoch sees: each once, or every class equally often."""

from collections.abc import Iterator
from typing import Any

import torch
from transformers import Trainer


class Balanced(torch.utils.data.Sampler[int]):  # type: ignore[misc]
    """As many draws as there are samples, by weight and with replacement; the same in every process, another each
    epoch."""

    def __init__(self, weights: torch.Tensor, seed: int) -> None:
        self.weights = weights
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.weights)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        drawn = torch.multinomial(self.weights, len(self.weights), replacement=True, generator=generator)
        return iter(drawn.tolist())


def balanced(hot: torch.Tensor, seed: int) -> Balanced:
    """`hot` (samples, classes) of 0 and 1. A sample with several labels counts for the rarest of them, one without any
    for a class of its own."""
    whole = torch.cat([hot.double(), (hot.sum(1, keepdim=True) == 0).double()], 1)
    weights = (whole / whole.sum(0).clamp(min=1)).amax(1)
    return Balanced(weights, seed)


class SamplingTrainer(Trainer):  # type: ignore[misc]
    """`sampler` None draws each sample once an epoch, shuffled."""

    def __init__(self, sampler: Balanced | None, **fields: Any) -> None:
        super().__init__(**fields)
        self.sampler = sampler

    def _get_train_sampler(self, *arguments: Any) -> Any:
        return self.sampler or super()._get_train_sampler(*arguments)
