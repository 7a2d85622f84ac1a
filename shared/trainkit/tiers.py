"""The tiers that a training climbs before it begins: one case, one batch, a small part with an estimate, then all.

Called by the templates' loops with the model that will be trained; weights and random state are left as they were.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shared.trainkit.checks import TrainingFailed
from shared.trainkit.trainer import seconds_a_batch

EVIDENCE = Path("tiers.json")
OUT_OF_MEMORY = (MemoryError, RuntimeError)
"""What NumPy and torch raise, among other things; `lacks_memory` tells them apart."""


@dataclass(frozen=True)
class Climbed:
    wanted: Any
    """The section `training`; where memory did not hold a batch, `batch_size` halved and `accumulate` doubled."""
    batch_seconds: float
    """Of one batch, loading and augmentation included."""


def climb(
    model: torch.nn.Module,
    item: Callable[[int], Mapping[str, torch.Tensor]],
    count: int,
    wanted: Any,
    device: torch.device,
    *,
    smaller: str,
    seconds: float,
    evidence: Path = EVIDENCE,
) -> Climbed:
    """`item(n)` is training sample n of `count` as the network gets it; the model returns {"loss": ...} for a batch.

    `wanted` is the section `training`. `smaller` says what to make smaller where memory does not hold one sample,
    `seconds` is what the training has left (inf without a bound). What each tier saw stands in `evidence`.
    Raises TrainingFailed, in two lines: cause and direction.
    """
    while True:
        size = wanted.batch_size
        try:
            return Climbed(wanted, seconds_a_batch(model, lambda number: item(number % count), size, device))
        except OUT_OF_MEMORY as error:
            if not lacks_memory(error):
                raise
            if size == 1:
                raise TrainingFailed(
                    f"out of memory: it does not hold a batch of one\nmake smaller: {smaller}"
                ) from None
        model.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        wanted = wanted.model_copy(update={"batch_size": size // 2, "accumulate": 2 * wanted.accumulate})
        print(f"the memory does not hold a batch of {size}; {size // 2} are taken, twice as often a step", flush=True)


def lacks_memory(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in text
