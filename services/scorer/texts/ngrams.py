"""BLEU and CIDEr-D: how the runs of one to four words of an answer agree with those of its reference.

Both follow pycocoevalcap 1.2 with one reference a case, down to the tiny numbers that keep an empty answer defined.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from services.scorer.patients import Floats
from services.scorer.texts.tokens import Words

LONGEST = 4
SIGMA = 6.0
"""Of CIDEr-D's penalty for a difference in length, in words."""

Runs: TypeAlias = tuple[Mapping[Words, int], ...]

_SMALL, _TINY = 1e-9, 1e-15


@lru_cache(maxsize=512)
def runs(words: Words) -> Runs:
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


class Cider:
    """CIDEr-D of pairs. How much a run weighs is fixed by the references: log(cases / cases whose reference has it)."""

    def __init__(self, references: Sequence[Words]) -> None:
        held: Counter[Words] = Counter(run for words in references for found in runs(words) for run in found)
        self._cases = math.log(max(len(references), 1))
        self._weights = {run: self._cases - math.log(count) for run, count in held.items()}
        self._norm = lru_cache(maxsize=4096)(self._measured)

    def score(self, answer: Words, reference: Words) -> float:
        """0 to 10."""
        apart = max(len(answer) - 1, 0) - max(len(reference) - 1, 0)
        cosines = 0.0
        for ours, theirs, left, right in zip(
            runs(answer), runs(reference), self._norm(answer), self._norm(reference), strict=True
        ):
            if left and right:
                both = (
                    min(count, theirs[run]) * theirs[run] * self._weights[run] ** 2
                    for run, count in ours.items()
                    if run in theirs
                )
                cosines += sum(both) / (left * right)
        return 10.0 * cosines / LONGEST * math.exp(-(apart**2) / (2 * SIGMA**2))

    def _measured(self, words: Words) -> tuple[float, ...]:
        return tuple(
            math.sqrt(sum((count * self._weights.get(run, self._cases)) ** 2 for run, count in found.items()))
            for found in runs(words)
        )
