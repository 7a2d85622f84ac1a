"""BLEU of a set of texts (pycocoevalcap 1.2, one reference a case), down to the tiny numbers that keep an empty answer
defined."""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Words: TypeAlias = tuple[str, ...]
Floats: TypeAlias = npt.NDArray[np.float64]

LONGEST = 4
_SMALL, _TINY = 1e-9, 1e-15


@lru_cache(maxsize=512)
def runs(words: Words) -> tuple[Mapping[Words, int], ...]:
    """How often each run of n words occurs, for n = 1..4."""
    return tuple(Counter(zip(*(words[first:] for first in range(n)), strict=False)) for n in range(1, LONGEST + 1))


def bleu_counts(answer: Words, reference: Words) -> list[float]:
    """Runs of the answer that the reference has too (clipped), n = 1..4; runs of the answer; words of both."""
    shared = [
        float(sum(min(count, theirs[run]) for run, count in ours.items() if run in theirs))
        for ours, theirs in zip(runs(answer), runs(reference), strict=True)
    ]
    size = len(answer)
    return [*shared, *(float(max(0, size - n)) for n in range(LONGEST)), float(size), float(len(reference))]


def bleu(counts: Floats, longest: int) -> Floats:
    """BLEU from sums of `bleu_counts` over cases: (..., 10) -> (...)."""
    ratios = (counts[..., :longest] + _TINY) / (counts[..., LONGEST : LONGEST + longest] + _SMALL)
    length = (counts[..., -2] + _TINY) / (counts[..., -1] + _SMALL)
    brevity = np.exp(np.minimum(0.0, 1.0 - 1.0 / length))
    return np.asarray(np.prod(ratios, axis=-1) ** (1.0 / longest) * brevity)
