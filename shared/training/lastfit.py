"""The last part of a training: weights that were chosen on the validation part are trained on with its cases, too.

What is measured stays as it was: the figures of a training are those of the weights before.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from shared.training import ranks
from shared.training.budget import TimeBudget
from shared.training.configfile import FittedTraining
from shared.training.machine import workers
from shared.training.progress import tell_progress
from shared.training.saved import save_state
from shared.training.trial import Prepare, Steps

FINAL = 0.5
"""Of the time of the training that a try stands for: from here on it is taken for that training."""


@dataclass(frozen=True)
class Fitted:
    weights: dict[str, torch.Tensor]
    """On the CPU."""
    told: dict[str, float]
    """Its cases, epochs and seconds."""

    def save(self, path: Path) -> None:
        save_state(self.weights, path)


def wanted_seconds(wanted: FittedTraining) -> float:
    """Of the training's time, what is kept for it. Shorter tries are compared, by figures from before, and have none;
    neither has a training that is bounded by its epochs alone."""
    seconds = wanted.train_seconds or 0.0
    return 0.0 if wanted.whole_seconds and seconds < FINAL * wanted.whole_seconds else wanted.last_fit * seconds


def last_fit(
    model: torch.nn.Module, data: Any, wanted: FittedTraining, device: torch.device, budget: TimeBudget, epochs: float,
    rate: Callable[[float], float], sampler: Any = None, prepare: Prepare = dict,
) -> Fitted | None:  # fmt: skip
    """Train a copy of the weights of `model`, which keeps its own, on the cases of `data` for the time that was kept,
    and for the same share of `epochs` where these are bounded. `rate` is the schedule: its factor of the learning rate
    by what is done of it. `sampler` None draws each case once an epoch; `prepare` makes the network's of a batch. All
    processes call it. None where nothing is wanted, no time is left, or a loss is not finite, and where SIGTERM asks to
    stop (`budget.asked`)."""
    share, seconds = wanted.last_fit, min(budget.last, budget.left())
    if not share or ranks.most(-seconds)[0] >= 0:
        return None
    sampler = sampler or DistributedSampler(data, ranks.count(), ranks.number(), seed=wanted.seed)
    several = {"num_workers": workers(wanted), "persistent_workers": workers(wanted) > 0}
    loader = DataLoader(data, wanted.batch_size, sampler=sampler, pin_memory=device.type == "cuda", **several)
    most = math.inf if wanted.epochs is None else math.ceil(epochs * share / (1 - share)) * len(loader)
    chosen = on_cpu(model)
    steps = Steps(ranks.together(model), wanted, device, wanted.learning_rate, prepare)
    begin, taken, done, failed = time.monotonic(), 0, 0.0, 0.0
    while done < 1 and not failed and not budget.asked:
        sampler.epoch = taken // len(loader)
        for batch in loader:
            loss = steps.loss(batch)
            spent, failed = ranks.most((time.monotonic() - begin) / seconds, not math.isfinite(float(loss.detach())))
            done = max(spent, taken / most)
            if budget.agree() or failed or done >= 1:
                break
            steps.rate = wanted.learning_rate * rate(budget.loop + (1 - budget.loop) * done)
            steps.learn(loss)
            taken += 1
        if ranks.first():
            tell_progress(text=f"last fit, with the validation cases: {min(done, 1):.0%}")
    fitted = on_cpu(model)
    model.load_state_dict(chosen)
    if failed or budget.asked or not taken:
        ranks.say("the last fit is left out" + (": its loss is not finite" if failed else ""))
        return None
    told = {"cases": len(data), "epochs": taken / len(loader), "seconds": time.monotonic() - begin}
    return Fitted(fitted, {name: round(value, 1) for name, value in told.items()})


def on_cpu(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of its weights."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
