"""The time of a training: what of it is spent, what is left, and how many epochs fit."""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from shared.training import ranks
from shared.training.configfile import Training


class TimeBudget:
    """Wall seconds from `begin` (time.monotonic) to the end of the training loop; `seconds` None is no bound.

    `spent` belongs to earlier attempts; `last` is kept for the last fit, with which the schedule of the learning rate
    goes on, and `reserve` for what else comes after the loop. An attempt gets at least a tenth of `seconds`, so that a
    training that was killed late can still finish.
    """

    def __init__(
        self, seconds: float | None, begin: float, spent: float = 0.0, reserve: float = 0.0, last: float = 0.0
    ) -> None:
        self.begin, self.spent, self.last = begin, spent, last
        self.loop = 1.0 if seconds is None else 1 - last / seconds
        """Part of the schedule that the loop has."""
        self.asked = False
        """To stop, by SIGTERM: the next step saves and ends the loop."""
        self.agreed: float | None = None
        """What `elapsed` is in all of several processes, whose clocks differ; agreed on now and at each step."""
        self.agree()
        self.lead = self.elapsed()
        """What reading the data took, before the loop."""
        self.limit = math.inf if seconds is None else max(seconds - spent - reserve - last, 0.1 * seconds)
        self.end = math.inf if seconds is None else seconds - spent

    def elapsed(self) -> float:
        """Of this attempt."""
        return time.monotonic() - self.begin if self.agreed is None else self.agreed

    def agree(self) -> bool:
        """Make the processes of a training see one time; -> whether any of them is asked to stop."""
        if ranks.count() > 1:
            self.agreed, asked = ranks.most(time.monotonic() - self.begin, self.asked)
            self.asked = bool(asked)
        return self.asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGTERM asks to stop for as long as this lasts."""
        previous = signal.signal(signal.SIGTERM, lambda *_: setattr(self, "asked", True))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, previous)

    def remaining(self) -> float:
        return self.limit - self.elapsed()

    def left(self) -> float:
        """Until all of the training's time is over, not only the loop's."""
        return self.end - (time.monotonic() - self.begin)

    def share(self) -> float:
        """Of the loop's time that is used up, over all attempts; 0 without a bound."""
        whole = self.spent + self.limit - self.lead
        return 0.0 if math.isinf(whole) else min(1.0, (self.spent + self.elapsed() - self.lead) / max(whole, 1e-6))

    def progressed(self, step: int, steps: int) -> float:
        """Of the schedule, 0 to 1: by steps or time of the loop, whichever is further along."""
        return self.loop * max(min(1.0, step / max(1, steps)), self.share())


class Pace:
    """What a progress line says of a loop's time, from its first step on: epochs that will have been made, by their
    number or by what fits into the time, and seconds until then."""

    def __init__(self, budget: TimeBudget, epochs: float, first: float = 0.0) -> None:
        """`first` is the epoch that this attempt goes on from."""
        self.budget, self.most, self.first, self.begin = budget, epochs, first, time.monotonic()

    def __call__(self, made: float) -> dict[str, float]:
        each = (time.monotonic() - self.begin) / max(made - self.first, 1e-6)
        whole = max(made, min(self.most, made + max(0.0, self.budget.remaining()) / max(each, 1e-9)))
        return {"epoch": round(made, 2), "epochs": round(whole, 1), "eta_seconds": round((whole - made) * each, 1)}


def steps_an_epoch(count: int, wanted: Training) -> int:
    """Steps of the optimizer in an epoch of `count` samples; `wanted` is the section `training`."""
    batches = math.ceil(math.ceil(count / wanted.batch_size) / ranks.count())
    return math.ceil(batches / wanted.accumulate)


def tell_estimate(epoch_seconds: float, seconds: float, wanted: Training, device: torch.device) -> None:
    """Say how many epochs fit into `seconds`."""
    fitting = min(max(0.0, seconds) / epoch_seconds, wanted.most_epochs)
    several = f" on {ranks.count()} processes" if ranks.count() > 1 else ""
    ranks.say(f"about {epoch_seconds:.1f} s an epoch on {device.type}{several}; {fitting:.0f} epochs fit")
    if fitting < 1:
        ranks.say("not even one epoch fits into training.train_seconds; the result will be poor")
