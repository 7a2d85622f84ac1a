"""Reports of the validation part, written by all processes together, and what that costs."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from metrics import merit, scores
from telling import Telling, reports_of

from shared.training import ranks
from shared.training.configfile import ConfigError

AT_ONCE = 4
"""Batches of the training that are written as one: without gradients they need less memory than one of these, and a
step of the decoder takes hardly longer for many reports than for few."""
TRUSTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1)
"""Of which one is chosen (telling.py)."""


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
    training = model.training
    model.eval()
    texts: list[str] = []
    for batch in batches(model, data, numbers, AT_ONCE * batch_size):
        texts += reports_of(model, batch, length, writer, data.words, data.telling)
    model.train(training)
    return texts


def batches(model: Any, data: Any, numbers: list[int], size: int) -> Iterator[torch.Tensor]:
    """Images of these samples, where the model is."""
    device = next(model.parameters()).device
    for start in range(0, len(numbers), size):
        yield torch.stack([data[number]["image"] for number in numbers[start : start + size]]).to(device)


def likely_all(model: Any, data: Any, batch_size: int) -> list[list[float]]:
    """The likelihood of each fact, a line a sample; each process looks at its share."""
    mine = list(range(len(data)))[ranks.number() :: ranks.count()]
    model.eval()
    return ranks.gathered(
        [line for batch in batches(model, data, mine, AT_ONCE * batch_size) for line in model.likely(batch)]
    )


def trusted(telling: Telling, likely: list[list[float]], references: list[str], metric: str) -> Telling:
    """With the trust in images whose texts serve these cases best."""

    def reached(one: Telling) -> float:
        answers = [one.report(line) for line in likely]
        return merit(scores(references, answers)[metric], answers)

    return max((replace(telling, trust=trust) for trust in TRUSTS), key=reached)


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

    def turns(count: int, size: int) -> int:
        return math.ceil(count / size / ranks.count())

    # An evaluation has no backward pass: about a third of the work.
    loss = turns(len(val_set), wanted.batch_size) * batch_seconds / 3
    evaluation = loss + turns(min(wanted.judged, len(val_set)), several) * writing
    return evaluation, 1.5 * turns(len(val_set), several) * writing
