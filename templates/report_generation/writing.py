"""Reports of the validation part, written by all processes together, and what that costs."""

import math
import time
from typing import Any

import torch

from shared.training import ranks

AT_ONCE = 4
"""Batches of the training that are written as one: without gradients they need less memory than one of these, and a
step of the decoder takes hardly longer for many reports than for few."""


def write_all(model: Any, data: Any, numbers: list[int], length: int, batch_size: int) -> list[str]:
    """Reports of these samples, in their order; each process writes its share."""
    mine = write_reports(model, data, numbers[ranks.number() :: ranks.count()], length, batch_size)
    shares = ranks.gathered(mine)
    return [shares[place % len(shares)][place // len(shares)] for place in range(len(numbers))]


def write_reports(model: Any, data: Any, numbers: list[int], length: int, batch_size: int) -> list[str]:
    """Reports of these samples, in their order, by this process."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    texts: list[str] = []
    for start in range(0, len(numbers), AT_ONCE * batch_size):
        batch = [data[number]["image"] for number in numbers[start : start + AT_ONCE * batch_size]]
        found = model.write(torch.stack(batch).to(device), length)
        texts += [data.words.decode(line) for line in found]
    model.train(training)
    return texts


def costs(config: Any, wanted: Any, model: Any, val_set: Any, batch_seconds: float) -> tuple[float, float]:
    """Seconds of an evaluation while training goes on, and of writing all validation reports at the end."""
    writing = seconds_a_write(model, val_set, config.text.max_tokens, wanted.batch_size)

    def batches(count: int, size: int) -> int:
        return math.ceil(count / size / ranks.count())

    several = AT_ONCE * wanted.batch_size
    # An evaluation has no backward pass: about a third of the work.
    loss = batches(len(val_set), wanted.batch_size) * batch_seconds / 3
    evaluation = loss + batches(min(wanted.judged, len(val_set)), several) * writing
    return evaluation, 1.5 * batches(len(val_set), several) * writing


def seconds_a_write(model: Any, data: Any, length: int, batch_size: int) -> float:
    """Seconds for as many reports as are written at once, greedily to their full length. Leaves the random state as it
    is."""
    random_state = torch.get_rng_state()
    numbers = list(range(min(AT_ONCE * batch_size, len(data))))
    write_reports(model, data, numbers[:1], 2, 1)
    begin = time.monotonic()
    write_reports(model, data, numbers, length, batch_size)
    torch.set_rng_state(random_state)
    return time.monotonic() - begin
