"""Reports of the validation part, written by all processes together, and what that costs."""

import math
import time
from typing import Any

import torch
from telling import reports_of

from shared.training import ranks
from shared.training.configfile import ConfigError

AT_ONCE = 4
"""Batches of the training that are written as one: without gradients they need less memory than one of these, and a
step of the decoder takes hardly longer for many reports than for few."""


def writers(config: Any, telling: Any) -> list[str]:
    """Those that are asked for and possible. Raises ConfigError."""
    if config.text.writer == "sentences" and not telling.sentences:
        raise ConfigError("text.writer: no sentence is shared by three patients; set it to decoder")
    if config.text.writer != "either":
        return [config.text.writer]
    return ["decoder", "sentences"] if telling.sentences else ["decoder"]


def write_all(model: Any, data: Any, numbers: list[int], length: int, batch_size: int, writer: str) -> list[str]:
    """Reports of these samples, in their order; each process writes its share."""
    mine = numbers[ranks.number() :: ranks.count()]
    return ranks.gathered(write_reports(model, data, mine, length, batch_size, writer))


def write_reports(model: Any, data: Any, numbers: list[int], length: int, batch_size: int, writer: str) -> list[str]:
    """Reports of these samples, in their order, by this process."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    texts: list[str] = []
    for start in range(0, len(numbers), AT_ONCE * batch_size):
        batch = [data[number]["image"] for number in numbers[start : start + AT_ONCE * batch_size]]
        texts += reports_of(model, torch.stack(batch).to(device), length, writer, data.words, data.telling)
    model.train(training)
    return texts


def costs(
    config: Any, wanted: Any, model: Any, val_set: Any, batch_seconds: float, by: list[str]
) -> tuple[float, float]:
    """Seconds of an evaluation while training goes on, and of writing all validation reports at the end: as many as are
    written at once are, to their full length. Leaves the random state as it is."""
    random_state, several = torch.get_rng_state(), AT_ONCE * wanted.batch_size
    write_reports(model, val_set, [0], 2, 1, by[0])  # the first one warms up
    begin, first = time.monotonic(), list(range(min(several, len(val_set))))
    for writer in by:
        write_reports(model, val_set, first, config.text.max_tokens, wanted.batch_size, writer)
    writing = time.monotonic() - begin
    torch.set_rng_state(random_state)

    def batches(count: int, size: int) -> int:
        return math.ceil(count / size / ranks.count())

    # An evaluation has no backward pass: about a third of the work.
    loss = batches(len(val_set), wanted.batch_size) * batch_seconds / 3
    evaluation = loss + batches(min(wanted.judged, len(val_set)), several) * writing
    return evaluation, 1.5 * batches(len(val_set), several) * writing
